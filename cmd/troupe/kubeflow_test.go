package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// TestClusterOfATFJob serves a whole cluster from the TF_CONFIG that Kubeflow's training operator sets in the pods of a TFJob with all
// types of replicas: each pod has the addresses of all pods, including the evaluator's, and "environment" is "cloud".
func TestClusterOfATFJob(t *testing.T) {
	addresses := spectest.Addresses(t, 5)
	type task struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	tasks := []task{{"chief", 0}, {"evaluator", 0}, {"ps", 0}, {"worker", 0}, {"worker", 1}}
	cluster := map[string][]string{}
	for i, own := range tasks {
		cluster[own.Type] = append(cluster[own.Type], addresses[i])
	}
	var last string
	wait := start(t, nil, "wait", "--ready", addresses[4], "--timeout=45s") // begins before the servers
	for _, own := range tasks {
		text, err := json.Marshal(struct {
			Cluster     map[string][]string `json:"cluster"`
			Task        task                `json:"task"`
			Environment string              `json:"environment"`
		}{cluster, own, "cloud"})
		if err != nil {
			t.Fatal(err)
		}
		last = start(t, []string{"TF_CONFIG=" + string(text)}, "serve", "--drain=1s").target()
	}
	if code, out := wait.ends(); code != exit.CodeOK {
		t.Fatalf("exit code %d: %s", code, out)
	}
	code, out := start(t, nil, "status", last).ends()
	lines := strings.Split(out, "\n")
	for i, want := range []string{"/job:chief/replica:0/task:0", "/job:evaluator/replica:0/task:0", "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"} {
		if code != exit.CodeOK || !slices.ContainsFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, want) && strings.Contains(line, addresses[i]) && strings.Contains(line, " up ")
		}) {
			t.Errorf("exit code %d, without %s: %s", code, want, out)
		}
	}
}
