"""How long things take that on AWS take minutes. Settable through the control API."""

from dataclasses import dataclass


@dataclass
class Settings:
    """Seconds of this machine's time."""

    provision_seconds: float = 0.2
    """From Starting to Downloading, without a warm pool."""
    stop_seconds: float = 20.0
    """Between SIGTERM and SIGKILL: 120 on AWS."""
    sibling_seconds: float = 3.0
    """How long the other hosts live on when one has failed."""
    sync_seconds: float = 2.0
    """Between uploads of the managed checkpoint folder."""
    file_system_seconds: float = 1.0
    """Each step of a file system that a run makes: made, linked, deleted."""
    look_seconds: float = 0.25
    """Between looks at limits and triggers; endings are noticed at once."""

    def change(self, **values: float) -> None:
        """Set some of them; an unknown name is an error."""
        for name, value in values.items():
            if name not in self.__dataclass_fields__:
                raise KeyError(name)
            setattr(self, name, float(value))
