"""The agent's HTTP server: whoever may ask is answered, and waits while a sampler reads."""

from wsgiref.types import WSGIApplication

from ..common.http_server import Limits, Server
from .auth import basic_authentication, tls
from .config import Config
from .ticks_first import ticks_first


def listen(config: Config, app: WSGIApplication) -> Server:
    """Return a server of ``app``, bound but not yet serving; raises InputError where it cannot listen as the settings say."""
    web = config.web
    certificates = tls(web)
    return Server(
        config.host,
        config.port,
        app,
        name="epochcast-agent",
        # An answer may be all samples of eight GPUs, on a slow line.
        limits=Limits(web.connections, waiting=256, request_s=10.0, answer_s=120.0, silence_s=120.0),
        authentication=None if web.users is None else basic_authentication(web.users),
        tls=None if certificates is None else certificates.get,
        before_answer=ticks_first.wait,
    )
