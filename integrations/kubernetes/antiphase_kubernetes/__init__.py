"""A controller for Kubernetes: places gangs of pods where Antiphase says, and only then lets them be scheduled."""
