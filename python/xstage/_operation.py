"""What the operations of one rank have in common."""


class Operation:
    """Holds the operation of the compiled module, `_core`, which is of the class `_core_class`."""

    _core_class = None

    def __init__(self, heap, rank, *problem, time_out_ms, plan):
        self._core = self._core_class(heap, rank, *problem, time_out_ms, plan)
        self.device = heap.device(rank)

    @property
    def plan(self):
        """A copy of the plan, with everything filled in."""
        return self._core.plan

    @property
    def issuers(self):
        """CTAs of a launch."""
        return self._core.issuers

    def check(self):
        """RuntimeError if a wait of this rank has expired: who waited where, for whom. Does not wait for the GPU."""
        self._core.check()

    @classmethod
    def reset(cls, ranks):
        """After an expiry: waits for the GPUs, then makes the operation of all ranks usable again."""
        cls._core_class.reset([rank._core for rank in ranks])
