"""Plans anew from recent traffic, and says whether another plan is worth its move. Of the controller it may import
`detect`, `speed`, `local`, `scale`, `move`, `memory`, `shipped`.
"""
