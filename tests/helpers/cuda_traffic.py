"""What a call copies, launches and waits for on a CUDA device."""

from corpusmill.kernels.cuda.ledger import LEDGER, Operation


class Traffic:
    """What a call did on the device: bytes by the array that was copied, calls by kernel and by cause of a wait."""

    def __init__(self, call):
        with LEDGER.recording() as found:
            call()
        self.uploads = self._of(found, Operation.UPLOAD, 1)
        self.downloads = self._of(found, Operation.DOWNLOAD, 1)
        self.launches = self._of(found, Operation.LAUNCH, 0)
        self.allocations = self._of(found, Operation.ALLOCATE, 0)
        self.waits = self._of(found, Operation.WAIT, 0)
        self.waits.pop("pinned buffer", None)

    @staticmethod
    def _of(found, operation, index):
        return {entry.cause: total[index] for entry, total in found.items() if entry.operation == operation}
