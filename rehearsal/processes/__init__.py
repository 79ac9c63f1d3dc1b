"""Keep the processes of a rehearsal: started in order, watched, and gone with whoever started them."""

from rehearsal.processes.ports import free_port
from rehearsal.processes.supervisor import Supervised, Supervisor

__all__ = ["Supervised", "Supervisor", "free_port"]
