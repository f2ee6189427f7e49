"""Owners of a run: whoever took over last writes it, in whatever order the processes continue."""

import shutil
import tempfile

import numpy as np
from corpusmill.io.errors import Locked
from corpusmill.pipeline.engine.run import RunStore
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from stateful.settings import few

KEEP = 2


class Process:
    """A process that trains a run. It may be paused between any two of its rules."""

    def __init__(self, url, is_new=False):
        self.run = RunStore(url, blocks="blocks").take_over(is_new)
        self.step = self.run.step
        self.rows = list(RunStore(url).metrics)
        self.is_written = False


class OwnersMachine(RuleBasedStateMachine):
    """Compares a run with the list of the steps that were committed."""

    def __init__(self):
        super().__init__()
        self.url = tempfile.mkdtemp()
        self.processes = []
        self.started = 0
        self.steps = {}
        self.step = -1

    def teardown(self):
        shutil.rmtree(self.url)

    @rule()
    def start(self):
        self.add(Process(self.url))
        assert self.processes[-1].step == self.step

    def add(self, process):
        """Note a process that has taken over. Only the last three matter: others would make conflicts rare."""
        self.started += 1
        assert process.run.owner == self.started
        self.processes = [*self.processes[-2:], process]

    @precondition(lambda self: self.processes)
    @rule(data=st.data(), value=st.integers(0, 99))
    def write_the_next_step(self, data, value):
        process = data.draw(st.sampled_from(self.processes))
        process.value = value
        process.run.write_block(process.step + 1, 0, {"value": np.array(value)})
        process.is_written = True

    @precondition(lambda self: any(process.is_written for process in self.processes))
    @rule(data=st.data())
    def commit(self, data):
        process = data.draw(st.sampled_from([process for process in self.processes if process.is_written]))
        step = process.step + 1
        rows = [*process.rows, {"step": step}]
        try:
            process.run.commit(step, rows, KEEP)
        except Locked:
            assert process is not self.processes[-1]
            return
        assert process is self.processes[-1]
        process.step = step
        process.rows = rows
        process.is_written = False
        self.step = step
        self.steps[step] = process.value

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def prune(self, data):
        """Delete old steps in a process that may have been paused since its last commit."""
        data.draw(st.sampled_from(self.processes)).run.prune()

    @precondition(lambda self: self.processes)
    @rule()
    def overwrite(self):
        self.add(Process(self.url, is_new=True))
        self.step = -1
        self.steps = {}

    @invariant()
    def readers_see_the_committed_steps(self):
        run = RunStore(self.url, blocks="blocks")
        assert run.step == self.step
        for step in range(max(0, self.step - KEEP + 1), self.step + 1):
            assert int(run.block(step, 0)["value"]) == self.steps[step]
        assert [row["step"] for row in run.metrics] == list(range(self.step + 1))


TestOwners = OwnersMachine.TestCase
TestOwners.settings = few(examples=20, steps=20)
