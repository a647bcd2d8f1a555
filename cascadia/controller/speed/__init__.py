"""Speed of engines while they serve: each replica held against its plan and its peers, and constants learnt
from what is seen. Of the controller it may import `local`, `scale`, `move`, `memory`, `shipped`.
"""
