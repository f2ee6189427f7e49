"""The options of each kind of Dask cluster. Names are those of Dask."""

from typing import Any, Literal

from pydantic import Field, PositiveInt

from .section import Section


class ClusterConfig(Section):
    """Base of all kinds of cluster."""

    kind: str
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further arguments of the library's own cluster class, passed on unchanged"
    )

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of ``open_cluster``. Keys that are null are left out."""
        given = self.model_dump(exclude={"options"})
        arguments = {name: value for name, value in given.items() if value is not None}
        return arguments | self.options


class SynchronousConfig(ClusterConfig):
    """No Dask: every task runs in this process, one after the other. The results are the same, bit for bit."""

    kind: Literal["synchronous"] = "synchronous"


class AdaptConfig(Section):
    """Bounds of a cluster that grows and shrinks with its work."""

    minimum: PositiveInt = Field(1, description="Minimum number of workers")
    maximum: PositiveInt = Field(description="Maximum number of workers")


class ScaledConfig(ClusterConfig):
    """Base of the clusters that start their own workers. The number of workers does not change results."""

    adapt: AdaptConfig | None = Field(
        None, description="Let the number of workers follow the work, between these bounds, instead of n_workers"
    )


class LocalConfig(ScaledConfig):
    """Worker processes on this machine."""

    kind: Literal["local"] = "local"
    n_workers: PositiveInt | None = Field(None, description="Number of worker processes. null means one per core")
    threads_per_worker: PositiveInt = Field(1, description="Number of chunks that a worker processes at a time")
    memory_limit: str | int = Field(
        "auto", description="Memory limit of each worker, such as 4GiB. auto is an equal share of the machine's memory"
    )
    dashboard_address: str = Field(
        "127.0.0.1:8787", description="Address of the live page. If the port is taken, another one is chosen"
    )


class SecuredConfig(ClusterConfig):
    """Base of the clusters with a scheduler that runs already. With certificates, connections use TLS."""

    tls_ca_file: str | None = Field(None, description="Certificate of the authority, a PEM file")
    tls_client_cert: str | None = Field(None, description="Certificate of this client, a PEM file")
    tls_client_key: str | None = Field(None, description="Private key of this client, a PEM file")


class AddressConfig(SecuredConfig):
    """A scheduler at a known address."""

    kind: Literal["address"] = "address"
    address: str = Field(description="Address of the scheduler, such as tcp://scheduler:8786 or tls://scheduler:8786")


class SchedulerFileConfig(SecuredConfig):
    """A scheduler that wrote its address to a shared file (dask scheduler --scheduler-file)."""

    kind: Literal["scheduler-file"] = "scheduler-file"
    scheduler_file: str = Field(description="Path of the file")


class LocalCudaConfig(ScaledConfig):
    """One worker per GPU of this machine (dask-cuda)."""

    kind: Literal["local-cuda"] = "local-cuda"
    n_workers: PositiveInt | None = Field(None, description="Number of workers. null means one per GPU")
    threads_per_worker: PositiveInt = Field(
        2, description="Number of chunks on a GPU at a time. With 2, one is transferred while the other is processed"
    )
    memory_limit: str | int | None = Field(None, description="Host memory limit of each worker, such as 16GiB")
    device_memory_limit: str | float | None = Field(
        None, description="GPU memory above which a worker moves data to host memory, such as 20GiB"
    )
    rmm_pool_size: str | float | None = Field(
        None, description="Size of the pool of GPU memory that each worker allocates when it starts, such as 20GiB"
    )


class JobQueueConfig(ScaledConfig):
    """Workers as jobs of a batch system (dask-jobqueue)."""

    kind: Literal["jobqueue"] = "jobqueue"
    scheduler: Literal["slurm", "pbs", "lsf", "sge", "oar", "htcondor", "moab", "local"] = Field(
        "slurm", description="The batch system"
    )
    n_workers: PositiveInt = Field(1, description="Number of workers")
    cores: PositiveInt = Field(1, description="Number of threads per job")
    processes: PositiveInt = Field(1, description="Number of worker processes per job")
    memory: str = Field("4GiB", description="Memory per job")
    walltime: str | None = Field(None, description="Maximum duration of a job, such as 02:00:00")
    queue: str | None = Field(None, description="Queue or partition")
    account: str | None = Field(None, description="Account that is charged")


class KubernetesConfig(ScaledConfig):
    """Workers as pods (dask-kubernetes and its operator)."""

    kind: Literal["kubernetes"] = "kubernetes"
    name: str = Field("corpusmill", description="Name of the DaskCluster resource")
    image: str = Field(description="Container image that has corpusmill installed")
    namespace: str | None = Field(None, description="Kubernetes namespace. null means the current one")
    n_workers: PositiveInt = Field(2, description="Number of worker pods")
    resources: dict[str, dict[str, str]] | None = Field(None, description="Resource requests and limits of a pod")
    env: dict[str, str] | None = Field(None, description="Environment variables of the scheduler and the workers")


AnyClusterConfig = (
    SynchronousConfig
    | LocalConfig
    | AddressConfig
    | SchedulerFileConfig
    | LocalCudaConfig
    | JobQueueConfig
    | KubernetesConfig
)
