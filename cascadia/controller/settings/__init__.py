"""Settings of a controller: `controller.yaml`, its keys and bounds, the flags that go over them, and what the loop
gets of both. Of the controller it may import `loop`, `decide`, `detect`, `speed`, `local`, `scale`, `move`, `memory`,
`shipped`.
"""
