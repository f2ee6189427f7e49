"""The options of each kind of Dask cluster. Names are those of Dask."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, NonNegativeInt, PositiveInt, Tag, model_validator

from .section import CLASS_PATTERN, Section, tag_of


class ClusterConfig(Section):
    """Base of all kinds of cluster."""

    kind: str
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further arguments of the library's own cluster class, passed on unchanged"
    )

    @property
    def is_left_to_us(self) -> bool:
        """Whether the number of workers is not said, so that small work may do without."""
        return False

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

    minimum: NonNegativeInt = Field(1, description="Minimum number of workers")
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

    @property
    def is_left_to_us(self) -> bool:
        """Whether the number of workers is not said, so that small work may do without."""
        return self.n_workers is None and self.adapt is None and not self.options


class AddressConfig(ClusterConfig):
    """A scheduler that runs already. With certificates, connections use TLS."""

    kind: Literal["address"] = "address"
    address: str | None = Field(
        None, description="Address of the scheduler, such as tcp://scheduler:8786 or tls://scheduler:8786"
    )
    scheduler_file: str | None = Field(
        None,
        description="Path of the file with the address, which dask scheduler --scheduler-file writes. It replaces "
        "address",
    )
    tls_ca_file: str | None = Field(None, description="Certificate of the authority, a PEM file")
    tls_client_cert: str | None = Field(None, description="Certificate of this client, a PEM file")
    tls_client_key: str | None = Field(None, description="Private key of this client, a PEM file")

    @model_validator(mode="after")
    def _has_one_address(self) -> Self:
        if (self.address is None) == (self.scheduler_file is None):
            raise ValueError("the scheduler's address is needed: set either address or scheduler_file")
        return self


class ClassConfig(ScaledConfig):
    """Workers that a class of another package starts, such as those of dask-jobqueue, dask-kubernetes and dask-cuda.

    The kind is the module and the class. ``options`` are the arguments of the class, n_workers included.
    """

    kind: str = Field("dask_jobqueue:SLURMCluster", pattern=CLASS_PATTERN, description="Module and class")


AnyClusterConfig = Annotated[
    Annotated[SynchronousConfig, Tag("synchronous")]
    | Annotated[LocalConfig, Tag("local")]
    | Annotated[AddressConfig, Tag("address")]
    | Annotated[ClassConfig, Tag("own")],
    Discriminator(tag_of),
]
