package interop;

import com.azure.messaging.eventhubs.EventProcessorClient;
import com.azure.messaging.eventhubs.EventProcessorClientBuilder;
import com.azure.messaging.eventhubs.LoadBalancingStrategy;
import com.azure.messaging.eventhubs.checkpointstore.blob.BlobCheckpointStore;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.storage.blob.BlobContainerAsyncClient;
import com.azure.storage.blob.BlobContainerClientBuilder;
import java.time.Duration;

/** A processor of the current SDK that checkpoints each batch. */
public final class Current {
  private Current() {}

  public static void main(String[] arguments) throws Exception {
    BlobContainerAsyncClient container =
        new BlobContainerClientBuilder()
            .connectionString(System.getenv("STORAGE"))
            .containerName(System.getenv("CONTAINER"))
            .buildAsyncClient();
    Duration interval = Duration.ofSeconds(3);
    EventProcessorClient client =
        new EventProcessorClientBuilder()
            .connectionString(System.getenv("HUB"))
            .consumerGroup("$Default")
            .checkpointStore(new BlobCheckpointStore(container))
            .loadBalancingUpdateInterval(interval)
            .partitionOwnershipExpirationInterval(interval.multipliedBy(6))
            .loadBalancingStrategy(LoadBalancingStrategy.BALANCED)
            .initialPartitionEventPosition(partition -> EventPosition.earliest())
            .processEventBatch(
                batch -> {
                  if (!batch.getEvents().isEmpty()) {
                    batch.updateCheckpoint();
                    Lines.given(
                        batch.getPartitionContext().getPartitionId(),
                        batch.getEvents().stream().map(event -> event.getSequenceNumber()).toList());
                  }
                },
                100,
                Duration.ofSeconds(1))
            .processError(
                failure ->
                    Lines.failed(failure.getPartitionContext().getPartitionId(), failure.getThrowable()))
            .buildEventProcessorClient();
    client.start();
    Lines.untilTerminated();
    client.stop();
    System.exit(0);
  }
}
