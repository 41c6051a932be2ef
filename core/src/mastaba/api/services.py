"""Services: their base class, the site to which they belong, and their settings.

`Site` is the configuration being served. A service gets it with its settings when it is created.
"""

from mastaba.model.settings import Contact, MapLimits, MapSettings, ServiceSettings, Settings
from mastaba.services.base import Download, Installed, RootEntry, Service, Site
from mastaba.services.change import Action, Change, LayerChange
from mastaba.services.root import services_xml
from mastaba_server.processes.scoreboard import Scoreboard, ThreadStatus, WorkerStatus

__all__ = [
    "Action",
    "Change",
    "Contact",
    "Download",
    "Installed",
    "LayerChange",
    "MapLimits",
    "MapSettings",
    "RootEntry",
    "Scoreboard",
    "Service",
    "ServiceSettings",
    "Settings",
    "Site",
    "ThreadStatus",
    "WorkerStatus",
    "services_xml",
]
