"""``volley topo``: the machine as a picture.  Facts become a machine, a machine a layout, a layout a drawing."""
