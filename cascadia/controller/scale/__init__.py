"""The inner loop: in seconds, as many replicas of today's plan's own shapes as the load asks for. Another plan is the
outer loop's business. Of the controller it may import `move`, `memory`, `shipped`.
"""
