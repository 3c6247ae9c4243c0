"""Typical devices of a fleet: their computing speed and bandwidth, with sources.

`ghz` is a device's Geekbench 5 single-core score divided by 1,000: one core of the measuring machine counts as 1,000
points. `cpus` is the multi-core score divided by the single-core score. Uplinks are Ookla's figures.

| device | processor | single-core | multi-core | uplink |
|---|---|---|---|---|
| workstation | Core i9-12900K | 1,989 | its 8 large cores | 100 Mbit/s, assumed |
| laptop | Core i7-1260P | 1,673 | 7,676 | 44 Mbit/s: mean fixed line, world, 2020 |
| flagship-phone | Snapdragon 8 Gen 2 | 1,521 | 4,689 | 21 Mbit/s: median on 5G, world, 2021 |
| raspberry-pi | Cortex-A76, 2.4 GHz (Raspberry Pi 5) | 630, scaled from 541 at 2.05 GHz | its 4 cores | 44 Mbit/s |
| old-phone | Snapdragon 450 | 150 | 956 | 4.2 Mbit/s: mean mobile line, India, 2020 |
"""

from __future__ import annotations

from sensecrypt.types import Device

PROCESSORS = {
    "workstation": "Core i9-12900K",
    "laptop": "Core i7-1260P",
    "flagship-phone": "Snapdragon 8 Gen 2",
    "raspberry-pi": "Cortex-A76",
    "old-phone": "Snapdragon 450",
}
DEVICES = {
    "workstation": Device(cpus=8, ghz=2.0, bandwidth=12.5),
    "laptop": Device(cpus=4.6, ghz=1.67, bandwidth=5.5),
    "flagship-phone": Device(cpus=3.1, ghz=1.52, bandwidth=2.6),
    "raspberry-pi": Device(cpus=4, ghz=0.63, bandwidth=5.5),
    "old-phone": Device(cpus=6.4, ghz=0.15, bandwidth=0.53),
}
