"""The public interface for plugins. Everything else in the core may change in any release.

Plugins import from these modules, from `mastaba` (`hookimpl`, `LazyClass`) and from
`mastaba.errors`, and from nothing else.

=====================  ===============================================================
``services``           the base class of services, the site, settings
``access``             who a client is, and what it may see
``web``                requests, responses, bodies, text for URLs and HTML
``catalogue``          what is published: layers, pyramids, tile matrix sets, styles
``tiles``              what answers a tile, stored or drawn
``featureinfo``        former names of ``mastaba_ows.featureinfo``
``inspire``            former names of ``mastaba_ows.inspire``
``storages``           the base class of storage drivers
``http_storages``      former names of ``mastaba_http``
``writable_storages``  the base class of storages that builders write to
``slabs``              index stores, and the readers of the levels of a pyramid
``containers``         the base classes of containers and of their readers
``dimensions``         times and other values of layers, and tables of variants
``documents``          documents of JSON and YAML, problems in them
``commands``           what subcommands share
``fastcgi``            former names only
``tools``              a whole installation in one process, for tests
=====================  ===============================================================

What draws is in `mastaba_render.api`, of the distribution mastaba-render; the modules `maps`
and `resampling` have its former names. docs/api.md says what may change in which release.
"""
