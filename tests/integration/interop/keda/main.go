// Prints what KEDA's scaler for Event Hubs counts: its own code, on a connection string and a container.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

// Answer is one line of the output.
type Answer struct {
	Events int64  `json:"events"`
	Active bool   `json:"active"`
	Error  string `json:"error,omitempty"`
}

func count(metadata map[string]string) (answer Answer) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	metadata["unprocessedEventThreshold"] = "1000000"
	scaler, err := scalers.NewAzureEventHubScaler(&scalersconfig.ScalerConfig{
		TriggerMetadata:   metadata,
		AuthParams:        map[string]string{"connection": os.Getenv("HUB"), "storageConnection": os.Getenv("STORAGE")},
		GlobalHTTPTimeout: 30 * time.Second,
		TriggerType:       "azure-eventhub",
	})
	if err != nil {
		return Answer{Error: err.Error()}
	}
	defer scaler.Close(ctx)
	metrics, active, err := scaler.GetMetricsAndActivity(ctx, "events")
	if err != nil {
		return Answer{Error: err.Error()}
	}
	return Answer{Events: metrics[0].Value.Value(), Active: active}
}

// Reads the metadata of a trigger on each line, as JSON, and answers each with a line.
func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		metadata := map[string]string{}
		if err := json.Unmarshal(lines.Bytes(), &metadata); err != nil {
			panic(err)
		}
		text, _ := json.Marshal(count(metadata))
		fmt.Println(string(text))
	}
}
