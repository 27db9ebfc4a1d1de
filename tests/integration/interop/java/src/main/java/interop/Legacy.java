package interop;

import com.microsoft.azure.eventhubs.EventData;
import com.microsoft.azure.eventhubs.EventPosition;
import com.microsoft.azure.eventprocessorhost.CloseReason;
import com.microsoft.azure.eventprocessorhost.EventProcessorHost;
import com.microsoft.azure.eventprocessorhost.EventProcessorOptions;
import com.microsoft.azure.eventprocessorhost.IEventProcessor;
import com.microsoft.azure.eventprocessorhost.PartitionContext;
import com.microsoft.azure.eventprocessorhost.PartitionManagerOptions;
import java.util.ArrayList;
import java.util.List;

/** An EventProcessorHost that checkpoints each batch. */
public final class Legacy implements IEventProcessor {
  public static void main(String[] arguments) throws Exception {
    EventProcessorHost host =
        EventProcessorHost.EventProcessorHostBuilder.newBuilder(System.getenv("NAME"), "$Default")
            .useAzureStorageCheckpointLeaseManager(System.getenv("STORAGE"), System.getenv("CONTAINER"), null)
            .useEventHubConnectionString(System.getenv("HUB"))
            .build();
    PartitionManagerOptions leases = new PartitionManagerOptions();
    leases.setLeaseDurationInSeconds(15);
    leases.setLeaseRenewIntervalInSeconds(5);
    leases.setStartupScanDelayInSeconds(1);
    leases.setFastScanIntervalInSeconds(2);
    leases.setSlowScanIntervalInSeconds(3);
    host.setPartitionManagerOptions(leases);
    EventProcessorOptions options = new EventProcessorOptions();
    options.setInitialPositionProvider(partition -> EventPosition.fromStartOfStream());
    options.setExceptionNotification(failure -> Lines.failed(failure.getPartitionId(), failure.getException()));
    host.registerEventProcessor(Legacy.class, options).get();
    Lines.untilTerminated();
    host.unregisterEventProcessor().get();
    System.exit(0);
  }

  @Override
  public void onOpen(PartitionContext context) {}

  @Override
  public void onClose(PartitionContext context, CloseReason reason) {}

  @Override
  public void onEvents(PartitionContext context, Iterable<EventData> events) throws Exception {
    EventData last = null;
    List<Long> numbers = new ArrayList<>();
    for (EventData event : events) {
      last = event;
      numbers.add(event.getSystemProperties().getSequenceNumber());
    }
    if (last != null) {
      context.checkpoint(last).get();
      Lines.given(context.getPartitionId(), numbers);
    }
  }

  @Override
  public void onError(PartitionContext context, Throwable error) {
    Lines.failed(context.getPartitionId(), error);
  }
}
