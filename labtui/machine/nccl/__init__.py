"""The reader of NCCL's, RCCL's, gloo's and torchrun's logs: bytes in, a report of links, settings and trouble out."""

from labtui.machine.nccl.reader import Reader
from labtui.machine.nccl.report import Report

__all__ = ["Reader", "Report"]
