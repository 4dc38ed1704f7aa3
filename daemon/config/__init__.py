"""The configuration: `server.json` and flags become one frozen `ServerConfig`.

`model` says which keys exist, `document` reads JSON, `load` turns a document into the structs, `validate` holds the
rules that concern several keys, `notices` tells of keys that nothing reads. Nothing here knows of model families: what
a family accepts is checked by `entries`.
"""

from audiocpp.daemon.config.load import effective, load_config
from audiocpp.daemon.config.model import ApiKeyFile, LiveIngest, ModelConfig, ServerConfig, VoicePreset

__all__ = ["ApiKeyFile", "LiveIngest", "ModelConfig", "ServerConfig", "VoicePreset", "effective", "load_config"]
