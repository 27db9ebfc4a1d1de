"""Where events come from: the columnar batch, the protocol of a hub, and the adapter to the Event Hubs SDK."""
