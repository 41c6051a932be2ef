"""What a process serves: loading of the configuration, the application, changes, and the log.

`loading.open_site` loads a configuration, `application.Application` answers requests with it,
`reloading` and `updates` change it while it is served, and `epoch.SiteEpoch` connects all of this
to the processes and transports of `mastaba_server`.
"""
