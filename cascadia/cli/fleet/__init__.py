"""Commands on running fleets: `up`, `down`, `status`, `logs`, `drain`, `scale`, `move`, `history`, `controller`."""
