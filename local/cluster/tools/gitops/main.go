// Command gitops judges resources as Argo CD does: with its engine's diff, and with health scripts in its Lua.
//
// It reads {"script": Lua, "resources": [{"target": object, "live": object}]} and writes, for each resource,
// {"resource": "group/kind/name", "synced": bool, "health": code, "message": text, "live": object, "wanted": object},
// where the last two are what the diff compared, only where they differ. Without a target only the health is judged.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/argoproj/gitops-engine/pkg/diff"
	"github.com/argoproj/gitops-engine/pkg/health"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
)

type request struct {
	Script    string `json:"script"`
	Resources []struct {
		Target map[string]any `json:"target"`
		Live   map[string]any `json:"live"`
	} `json:"resources"`
}

type verdict struct {
	Resource string          `json:"resource"`
	Synced   bool            `json:"synced"`
	Health   string          `json:"health"`
	Message  string          `json:"message"`
	Live     json.RawMessage `json:"live,omitempty"`
	Wanted   json.RawMessage `json:"wanted,omitempty"`
}

// script is a health script for the kind it is made for; the engine's own judgement stands for all other kinds.
type script string

// GetResourceHealth runs the script with the object as `obj`, as Argo CD does: it returns a table {status, message}.
func (s script) GetResourceHealth(object *unstructured.Unstructured) (*health.HealthStatus, error) {
	if s == "" || object.GetKind() != "EventConsumer" {
		return nil, nil
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return nil, err
		}
	}
	state.SetGlobal("obj", luajson.DecodeValue(state, object.Object))
	if err := state.DoString(string(s)); err != nil {
		return nil, err
	}
	text, err := luajson.Encode(state.Get(-1))
	if err != nil {
		return nil, err
	}
	found := &health.HealthStatus{}
	return found, json.Unmarshal(text, found)
}

func judge(target, live *unstructured.Unstructured, override health.HealthOverride) (verdict, error) {
	kind := live.GroupVersionKind()
	found := verdict{Resource: fmt.Sprintf("%s/%s/%s", kind.Group, kind.Kind, live.GetName()), Synced: true}
	status, err := health.GetResourceHealth(live, override)
	if err != nil {
		return found, err
	}
	if status != nil {
		found.Health, found.Message = string(status.Status), status.Message
	}
	if target.Object == nil {
		return found, nil
	}
	// Aggregated ClusterRoles get their rules from a controller.
	result, err := diff.Diff(target, live, diff.IgnoreAggregatedRoles(true))
	if err != nil {
		return found, err
	}
	if found.Synced = !result.Modified; result.Modified {
		found.Live, found.Wanted = result.NormalizedLive, result.PredictedLive
	}
	return found, nil
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	verdicts := []verdict{}
	for _, pair := range asked.Resources {
		target, live := &unstructured.Unstructured{Object: pair.Target}, &unstructured.Unstructured{Object: pair.Live}
		found, err := judge(target, live, script(asked.Script))
		if err != nil {
			return fmt.Errorf("%s: %w", found.Resource, err)
		}
		verdicts = append(verdicts, found)
	}
	return json.NewEncoder(os.Stdout).Encode(verdicts)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
