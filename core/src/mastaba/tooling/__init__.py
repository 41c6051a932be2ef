"""What the tools of this project need of the core: the doctor, builder, kit, demo and purger.

Every name here may change in any release. Plugins use `mastaba.api`, which is promised.
"""
