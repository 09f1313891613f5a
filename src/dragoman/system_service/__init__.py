"""System service: installs the gateway as a service of the user's init system, systemd or launchd (decision 28)."""
