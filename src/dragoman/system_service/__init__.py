"""System service: a gateway that the user's own init system starts and watches: systemd or launchd (decision 28)."""
