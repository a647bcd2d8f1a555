"""`router.yaml`: its models, secrets, and what a plan fills in. It imports no other room of the router."""
