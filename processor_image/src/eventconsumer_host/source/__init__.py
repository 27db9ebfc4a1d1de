"""The source of events: columnar batches, the interface of a hub, and the adapter for the Event Hubs SDK."""
