"""GPUs: the catalogue of data sheets, and GPUs of one's own. Of the simulator it may import `errors`."""
