"""What tests use: a driver of topologies; and disks, files and processes that fail on purpose."""
