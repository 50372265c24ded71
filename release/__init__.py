"""What is published beside the Python package: the manifests of plugin, bundle and registry."""
