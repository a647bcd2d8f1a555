"""The backend of a cluster: workloads, routers' settings, a lease for the leader, and objects handed over from Helm
and back. Of the controller it may import `service`, `settings`, `loop`, `decide`, `detect`, `speed`, `local`, `scale`,
`move`, `memory`, `shipped`.
"""
