// Receives a number of events from one partition, and prints what that took: the compiled client of the benchmark.
//
// It prints "ready" once it is attached. The clock starts there, while the hub still holds its events back, and stops
// with the last event; the second line is JSON with events, CPU seconds of the process and seconds.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/Azure/go-amqp"
)

const credit = 3000

type settings struct {
	address, hub, keyName, key string
	events                     int
}

func main() {
	var given settings
	flag.StringVar(&given.address, "address", "localhost:5672", "host and port of the namespace, without TLS")
	flag.StringVar(&given.hub, "hub", "", "name of the hub")
	flag.StringVar(&given.keyName, "key-name", "", "name of the shared access policy")
	flag.StringVar(&given.key, "key", "", "its key")
	flag.IntVar(&given.events, "events", 0, "events to receive from partition 0")
	flag.Parse()
	if err := run(context.Background(), given); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, given settings) error {
	connection, err := amqp.Dial(ctx, "amqp://"+given.address, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", given.address, err)
	}
	defer connection.Close()
	session, err := connection.NewSession(ctx, nil)
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	path := given.hub + "/ConsumerGroups/$Default/Partitions/0"
	if err := putToken(ctx, session, "amqp://localhost/"+path, given); err != nil {
		return err
	}
	receiver, err := session.NewReceiver(ctx, path, &amqp.ReceiverOptions{
		Credit:                    credit,
		RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
		Filters:                   []amqp.LinkFilter{amqp.NewSelectorFilter("amqp.annotation.x-opt-offset > '-1'")},
		Properties:                map[string]any{"com.microsoft:epoch": int64(1)},
	})
	if err != nil {
		return fmt.Errorf("attach to %s: %w", path, err)
	}
	fmt.Println("ready")
	started, before := time.Now(), cpuSeconds()
	size := 0
	for range given.events {
		message, err := receiver.Receive(ctx, nil)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		size += len(message.GetData())
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"cpu": cpuSeconds() - before, "seconds": time.Since(started).Seconds(), "events": given.events, "bytes": size,
	})
}

// putToken gives the namespace a shared access signature for an audience, and checks that it was accepted.
func putToken(ctx context.Context, session *amqp.Session, audience string, given settings) error {
	replies, err := session.NewReceiver(ctx, "$cbs", &amqp.ReceiverOptions{Credit: 1})
	if err != nil {
		return fmt.Errorf("attach to $cbs: %w", err)
	}
	defer replies.Close(ctx)
	requests, err := session.NewSender(ctx, "$cbs", nil)
	if err != nil {
		return fmt.Errorf("attach to $cbs: %w", err)
	}
	defer requests.Close(ctx)
	replyTo := "cbs"
	request := &amqp.Message{
		Properties: &amqp.MessageProperties{MessageID: "1", ReplyTo: &replyTo},
		ApplicationProperties: map[string]any{
			"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": audience,
		},
		Value: token(audience, given, time.Now().Add(time.Hour)),
	}
	if err := requests.Send(ctx, request, nil); err != nil {
		return fmt.Errorf("put a token: %w", err)
	}
	reply, err := replies.Receive(ctx, nil)
	if err != nil {
		return fmt.Errorf("put a token: %w", err)
	}
	if status := reply.ApplicationProperties["status-code"]; status != int32(200) && status != int32(202) {
		return fmt.Errorf("put a token: %v %v", status, reply.ApplicationProperties["status-description"])
	}
	return replies.AcceptMessage(ctx, reply)
}

func token(audience string, given settings, expires time.Time) string {
	resource := url.QueryEscape(audience)
	until := fmt.Sprint(expires.Unix())
	sign := hmac.New(sha256.New, []byte(given.key))
	fmt.Fprintf(sign, "%s\n%s", resource, until)
	signature := url.QueryEscape(base64.StdEncoding.EncodeToString(sign.Sum(nil)))
	return fmt.Sprintf("SharedAccessSignature sr=%s&sig=%s&se=%s&skn=%s", resource, signature, until, given.keyName)
}

// cpuSeconds is the CPU time of this process so far, user and system.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
