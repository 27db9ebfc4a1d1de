// A processor of the Azure SDK for Go with its blob checkpoint store, as the SDK's documentation shows it.
//
// It writes a checkpoint after each batch, and then one line of JSON: the partition and the sequence numbers. SIGTERM
// ends it in order: it gives its partitions back. The environment names the hub (HUB, a connection string without
// EntityPath, and NAME), the consumer group (GROUP), and the checkpoints (STORAGE, CONTAINER); the SDK uses all names
// for its blobs as they are spelled there.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2/checkpoints"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// Faster than the default of 10 s, so that tests are short. Ownerships expire after one minute, the default.
const updateInterval = 2 * time.Second

type given struct {
	Partition string  `json:"partition"`
	Numbers   []int64 `json:"numbers"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	blobs, err := container.NewClientFromConnectionString(os.Getenv("STORAGE"), os.Getenv("CONTAINER"), nil)
	if err != nil {
		return err
	}
	store, err := checkpoints.NewBlobStore(blobs, nil)
	if err != nil {
		return err
	}
	consumer, err := azeventhubs.NewConsumerClientFromConnectionString(
		os.Getenv("HUB"), os.Getenv("NAME"), os.Getenv("GROUP"), nil)
	if err != nil {
		return err
	}
	defer consumer.Close(context.Background())
	processor, err := azeventhubs.NewProcessor(consumer, store, &azeventhubs.ProcessorOptions{
		UpdateInterval: updateInterval,
		StartPositions: azeventhubs.StartPositions{
			Default: azeventhubs.StartPosition{Earliest: to.Ptr(true), Inclusive: true},
		},
	})
	if err != nil {
		return err
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	var writing sync.Mutex
	output := json.NewEncoder(os.Stdout)
	tell := func(found given) error {
		writing.Lock()
		defer writing.Unlock()
		return output.Encode(found)
	}
	go func() {
		for client := processor.NextPartitionClient(ctx); client != nil; client = processor.NextPartitionClient(ctx) {
			readers.Add(1)
			go func() {
				defer readers.Done()
				defer client.Close(context.Background())
				if err := read(ctx, client, tell); err != nil && ctx.Err() == nil {
					log.Printf("partition %s: %v", client.PartitionID(), err)
				}
			}()
		}
	}()
	return processor.Run(ctx)
}

func read(ctx context.Context, client *azeventhubs.ProcessorPartitionClient, tell func(given) error) error {
	for {
		wait, cancel := context.WithTimeout(ctx, time.Second)
		events, err := client.ReceiveEvents(wait, 100, nil)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if len(events) == 0 {
			continue
		}
		if err := client.UpdateCheckpoint(ctx, events[len(events)-1], nil); err != nil {
			return err
		}
		found := given{Partition: client.PartitionID()}
		for _, event := range events {
			found.Numbers = append(found.Numbers, event.SequenceNumber)
		}
		if err := tell(found); err != nil {
			return err
		}
	}
}
