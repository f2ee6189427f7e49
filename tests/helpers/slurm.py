"""A real Slurm of one node on this machine, without systemd: munged, slurmctld and slurmd."""

import contextlib
import os
import shutil
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
SETTINGS = """
ClusterName=test
SlurmctldHost={host}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=2
OverTimeLimit=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4000 State=UNKNOWN
PartitionName=batch Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def slurm(folder):
    """Start the daemons; yield the environment of commands, or None if Slurm cannot run here."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if os.getuid() or any(shutil.which(program, path=path) is None for program in PROGRAMS):
        yield None
        return
    ports = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(free.getsockname()[1])
    folder.chmod(0o755)
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    host = socket.gethostname().partition(".")[0]
    text = SETTINGS.format(host=host, folder=folder, ports=ports, cpus=os.cpu_count())
    (folder / "slurm.conf").write_text(text)
    environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}
    munge = ["munged", "-F", "-f", "--key-file", f"{folder}/munge.key", "--socket", f"{folder}/munge.socket"]
    munge += ["--pid-file", f"{folder}/munge.pid", "--log-file", f"{folder}/munge.log", "--seed-file", f"{folder}/seed"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    with contextlib.ExitStack() as stack:
        for command in (munge, ["slurmctld", "-D"], ["slurmd", "-D"]):
            process = stack.enter_context(subprocess.Popen(command, **quiet))
            stack.callback(process.kill)
            time.sleep(0.3)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True, env=environment)
            if "idle" in found.stdout:
                yield environment
                return
            time.sleep(0.1)
        yield None
