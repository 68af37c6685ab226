/* SPDX-License-Identifier: MIT */
/*
 * attach: a channel's memory and its queue on a device. Both can be made before the belt uses them: hp_channel_attach
 * registers the memory with the device and opens a queue, while the belt may run; hp_channel_detach takes both back;
 * hp_channel_pin attaches if need be, and makes the queue the belt's queue[index].
 */
#ifndef HP_ATTACH_H
#define HP_ATTACH_H

#include "lib/belt.h"

hoop_result hp_channel_attach(hp_channel *channel, int index, hp_device *device, hoop_error *error);
void hp_channel_detach(hp_channel *channel, int index);
hoop_result hp_channel_pin(hp_channel *channel, int index, hp_device *device, hoop_error *error);

#endif
