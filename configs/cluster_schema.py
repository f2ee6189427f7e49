"""The options of each kind of Dask cluster. Names are those of Dask."""

from typing import Any, Literal

from pydantic import Field, PositiveInt

from .model_schema import Section


class ClusterConfig(Section):
    """Base of all kinds: what is not named here goes to the library's own class as ``options``."""

    kind: str
    options: dict[str, Any] = Field(default_factory=dict, description="Further arguments of the library's own class")

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of ``open_cluster``; what was left null is left out."""
        own = {name: value for name, value in self.model_dump(exclude={"options"}).items() if value is not None}
        return own | self.options


class SynchronousConfig(ClusterConfig):
    """No Dask: every task runs in this process, one by one, with the same result to the bit."""

    kind: Literal["synchronous"] = "synchronous"


class AdaptConfig(Section):
    """How many workers a cluster may have, as there is work for them."""

    minimum: PositiveInt = Field(1, description="Fewest workers")
    maximum: PositiveInt = Field(description="Most workers")


class ScaledConfig(ClusterConfig):
    """Starts its own workers, as many as asked for or as there is work for; the model is the same to the bit."""

    adapt: AdaptConfig | None = Field(None, description="Fewest and most workers, instead of a fixed number")


class LocalConfig(ScaledConfig):
    """Worker processes on this machine."""

    kind: Literal["local"] = "local"
    n_workers: PositiveInt | None = Field(None, description="Worker processes; by default one a core")
    threads_per_worker: PositiveInt = Field(1, description="Chunks that a worker sweeps at a time")
    memory_limit: str | int = Field("auto", description="Memory of each worker, such as 4GiB; auto: its share")
    dashboard_address: str = Field(
        "127.0.0.1:8787", description="Where the live page is served; another port if this one is taken"
    )


class SecuredConfig(ClusterConfig):
    """Connects to a scheduler that is there already, by TLS if certificates are given."""

    tls_ca_file: str | None = Field(None, description="Certificate of the authority, in PEM format")
    tls_client_cert: str | None = Field(None, description="The client's certificate")
    tls_client_key: str | None = Field(None, description="The file of the client's private key")


class AddressConfig(SecuredConfig):
    """A scheduler at a known address."""

    kind: Literal["address"] = "address"
    address: str = Field(description="Such as tcp://scheduler:8786 or tls://scheduler:8786")


class SchedulerFileConfig(SecuredConfig):
    """A scheduler that wrote its address to a shared file (dask scheduler --scheduler-file)."""

    kind: Literal["scheduler-file"] = "scheduler-file"
    scheduler_file: str = Field(description="Path of the file")


class LocalCudaConfig(ScaledConfig):
    """One worker for each GPU of this machine (dask-cuda)."""

    kind: Literal["local-cuda"] = "local-cuda"
    n_workers: PositiveInt | None = Field(None, description="Workers; by default one a GPU")
    threads_per_worker: PositiveInt = Field(
        2, description="Chunks that a GPU has at a time: one is sent while another is drawn from"
    )
    memory_limit: str | int | None = Field(None, description="Host memory of each worker")
    device_memory_limit: str | float | None = Field(
        None, description="GPU memory above which a worker spills to the host"
    )
    rmm_pool_size: str | float | None = Field(None, description="GPU memory that each worker sets apart at start")


class JobQueueConfig(ScaledConfig):
    """Workers as jobs of a batch system (dask-jobqueue)."""

    kind: Literal["jobqueue"] = "jobqueue"
    scheduler: Literal["slurm", "pbs", "lsf", "sge", "oar", "htcondor", "moab", "local"] = "slurm"
    n_workers: PositiveInt = Field(1, description="Workers to ask for")
    cores: PositiveInt = Field(1, description="Threads a job")
    processes: PositiveInt = Field(1, description="Worker processes a job")
    memory: str = Field("4GiB", description="Memory a job")
    walltime: str | None = Field(None, description="Longest time a job may take, such as 02:00:00")
    queue: str | None = Field(None, description="Queue or partition")
    account: str | None = Field(None, description="Account that pays")


class KubernetesConfig(ScaledConfig):
    """Workers as pods (dask-kubernetes and its operator)."""

    kind: Literal["kubernetes"] = "kubernetes"
    name: str = Field("corpusmill", description="Name of the DaskCluster resource")
    image: str = Field(description="Container image that has corpusmill installed")
    namespace: str | None = Field(None, description="Kubernetes namespace; by default the current one")
    n_workers: PositiveInt = Field(2, description="Worker pods")
    resources: dict[str, dict[str, str]] | None = Field(None, description="Requests and limits of a pod")
    env: dict[str, str] | None = Field(None, description="Environment of scheduler and workers")


AnyClusterConfig = (
    SynchronousConfig
    | LocalConfig
    | AddressConfig
    | SchedulerFileConfig
    | LocalCudaConfig
    | JobQueueConfig
    | KubernetesConfig
)
