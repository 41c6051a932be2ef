"""Front servers: real nginx and real Apache with configurations of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.live.processes import WEB_USER, Process, answers, free_port, is_root, program, render

MODULES = Path("/usr/lib/apache2/modules")

_NGINX = """
daemon off;
worker_processes 1;
@user@
pid @folder@/nginx.pid;
error_log @folder@/nginx-error.log notice;
events { worker_connections 512; }
http {
  access_log off;
  client_body_temp_path @folder@/nginx-body;
  fastcgi_temp_path @folder@/nginx-fastcgi;
  proxy_temp_path @folder@/nginx-proxy;
  scgi_temp_path @folder@/nginx-scgi;
  uwsgi_temp_path @folder@/nginx-uwsgi;
@content@
}
"""

_NGINX_SERVER = """
  upstream backend@number@ { server @backend@; @keepalive@ }
  server {
    listen 127.0.0.1:@port@;
    client_max_body_size 20m;
    location / {
@location@
    }
  }
"""

_APACHE = """
ServerRoot @folder@
PidFile @folder@/apache.pid
DefaultRuntimeDir @folder@
Mutex file:@folder@/apache-ipc default
ErrorLog /dev/stderr
LogLevel warn
ServerName 127.0.0.1
DocumentRoot @folder@/htdocs
@user@
LoadModule mpm_event_module @modules@/mod_mpm_event.so
LoadModule authz_core_module @modules@/mod_authz_core.so
LoadModule env_module @modules@/mod_env.so
LoadModule fcgid_module @modules@/mod_fcgid.so
@loaded@
FcgidIPCDir @folder@/apache-ipc
FcgidProcessTableFile @folder@/apache-ipc/table
<Directory />
  Require all granted
</Directory>
@content@
"""

_APACHE_LIMITS = """
StartServers 1
ServerLimit 2
ThreadsPerChild 32
MaxRequestWorkers 64
MinSpareThreads 16
MaxSpareThreads 64
AllowEncodedSlashes NoDecode
FcgidMaxProcesses 2
FcgidMaxProcessesPerClass 2
FcgidConnectTimeout 30
FcgidIOTimeout 60
FcgidMaxRequestLen 20971520
"""

_APACHE_HOST = """
Listen 127.0.0.1:@port@
<VirtualHost 127.0.0.1:@port@>
@directives@
</VirtualHost>
"""


class Front(Process):
    """A front server with several addresses, one for each way to the back end.

    Attributes:
        urls: without final slash, in the order of what was asked for.
    """

    def __init__(
        self, name: str, command: Sequence[str | Path], folder: Path, ports: Sequence[int]
    ) -> None:
        super().__init__(name, command, folder)
        self.urls = [f"http://127.0.0.1:{port}" for port in ports]
        for url in self.urls:
            self.wait_for(lambda url=url: answers(url))  # type: ignore[misc]


def fastcgi(port: str, *, keep: bool = False, directives: str = "") -> tuple[str, bool, str]:
    """The way of nginx to a FastCGI server at a port, or at the path of a Unix socket."""
    location = f"""
      include /etc/nginx/fastcgi_params;
      fastcgi_keep_conn {"on" if keep else "off"};
      fastcgi_pass @upstream@;
      {directives}
    """
    return (port if ":" in port else f"unix:{port}"), keep, location


def proxy(port: str) -> tuple[str, bool, str]:
    """The way of nginx to an HTTP server."""
    location = """
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_pass http://@upstream@;
    """
    return port, True, location


def nginx(
    folder: Path, ways: Sequence[tuple[str, bool, str]], ports: Sequence[int] | None = None
) -> Front:
    """Start nginx with an address for each way, at these ports or any."""
    ports = ports or [free_port() for _ in ways]
    servers = []
    for number, (port, (backend, keep, location)) in enumerate(zip(ports, ways, strict=True)):
        values = {
            "backend": backend,
            "keepalive": "keepalive 8;" if keep else "",
            "port": port,
            "location": location.replace("@upstream@", f"backend{number}"),
            "number": number,
        }
        servers.append(render(_NGINX_SERVER, values))
    return nginx_with(folder, "".join(servers), ports)


def nginx_with(folder: Path, content: str, ports: Sequence[int]) -> Front:
    """Start nginx with this content of its ``http`` block, which listens at these ports."""
    binary = program("nginx", "nginx")
    user = f"user {WEB_USER};" if is_root() else ""
    conf = folder / "nginx.conf"
    values = {"content": content, "user": user, "folder": folder}
    conf.write_text(render(_NGINX, values), encoding="utf-8")
    command = [binary, "-e", folder / "nginx-error.log", "-c", conf]
    return Front("nginx", command, folder, ports)


def fcgid(command: str) -> str:
    """Apache starts the program itself, and hands it a listening socket on descriptor 0."""
    return f"""
<Location />
  Options +ExecCGI
  SetHandler fcgid-script
  FcgidWrapper "{command}" virtual
</Location>
"""


def proxy_fcgi(port: str) -> str:
    """Apache connects to a running FastCGI server."""
    address = f"fcgi://{port}/" if ":" in port else f"unix:{port}|fcgi://localhost/"
    # Since 2.4.59 Apache drops the Content-Length of such answers, unless configured to trust it.
    return f'SetEnv ap_trust_cgilike_cl yes\nProxyPass "/" "{address}"'


def apache(folder: Path, ways: Sequence[str]) -> Front:
    """Start Apache with an address for each way, in a new folder."""
    folder.mkdir(parents=True)
    ports = [free_port() for _ in ways]
    hosts = [
        render(_APACHE_HOST, {"directives": way, "port": port})
        for port, way in zip(ports, ways, strict=True)
    ]
    content = _APACHE_LIMITS + "".join(hosts)
    return apache_with(folder, content, ports, modules=("proxy", "proxy_fcgi"))


def apache_with(
    folder: Path, content: str, ports: Sequence[int], *, modules: Sequence[str]
) -> Front:
    """Start Apache with mod_fcgid, some more modules, and directives that listen at these ports."""
    binary = program("apache2", "apache2")
    if not all((MODULES / f"mod_{name}.so").exists() for name in ("fcgid", *modules)):
        pytest.skip("install the Debian package libapache2-mod-fcgid (make live)")
    (folder / "htdocs").mkdir()
    runtime = folder / "apache-ipc"
    runtime.mkdir()
    user = ""
    if is_root():
        user = f"User {WEB_USER}\nGroup {WEB_USER}"
        runtime.chmod(0o777)
    loaded = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in modules)
    conf = folder / "httpd.conf"
    values = {
        "content": content,
        "loaded": loaded,
        "user": user,
        "modules": MODULES,
        "folder": folder,
    }
    conf.write_text(render(_APACHE, values), encoding="utf-8")
    return Front(folder.name, [binary, "-D", "FOREGROUND", "-f", conf], folder, ports)
