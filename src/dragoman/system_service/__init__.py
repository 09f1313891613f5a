"""Services: a gateway that the user's own init system starts and watches over: systemd or launchd (decision 28).

`units` is the text of a unit and reads it back, `variables` finds those that a service needs of the shell, `managers`
are the init systems as data, with their commands, and `installed` is what is there. Nothing here asks or tells anybody.
"""
