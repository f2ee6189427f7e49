"""The base of all sections of a configuration."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One section of the configuration. A key that it does not define is an error, and so is an infinite number."""

    # Without protected_namespaces=(), pydantic warns of keys that begin with "model".
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())
