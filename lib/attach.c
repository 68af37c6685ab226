/* SPDX-License-Identifier: MIT */
/* attach: see attach.h. */
#include "lib/attach.h"

hoop_result
hp_channel_attach(hp_channel *channel, int index, hp_device *device, hoop_error *error)
{
    hoop_result result;
    if (channel->ready[index] || channel->queue[index])
        return HOOP_SUCCESS;
    result = device->ops->pin(device, channel->memory, channel->memory_bytes, error);
    if (result != HOOP_SUCCESS)
        return result;
    channel->o.device[index] = device;
    result = device->ops->queue_open(device, &channel->ready[index], error);
    if (result != HOOP_SUCCESS)
        hp_channel_detach(channel, index);
    return result;
}

void
hp_channel_detach(hp_channel *channel, int index)
{
    hp_device *device = channel->o.device[index];
    if (channel->ready[index])
        device->ops->queue_close(channel->ready[index]);
    if (device && channel->memory)
        device->ops->unpin(device, channel->memory);
    channel->ready[index] = NULL;
    channel->o.device[index] = NULL;
}

hoop_result
hp_channel_pin(hp_channel *channel, int index, hp_device *device, hoop_error *error)
{
    hoop_result result = hp_channel_attach(channel, index, device, error);
    if (channel->ready[index])
        channel->queue[index] = channel->ready[index];
    channel->ready[index] = NULL;
    return result;
}
