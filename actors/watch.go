package actors

import (
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/internal/watch"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/partition"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/debug"
	"google.golang.org/protobuf/proto"
)

// watchesOf returns what a debugger watches in a run, as a part of the plan's key; nil for nothing.
func watchesOf(o *corepb.RunOptions) ([]byte, error) {
	watches := o.GetDebugOptions().GetDebugTensorWatchOpts()
	if len(watches) == 0 {
		return nil, nil
	}
	for _, url := range watch.URLs(watches) {
		if _, err := debug.Root(url); err != nil {
			return nil, err
		}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&corepb.DebugOptions{DebugTensorWatchOpts: watches})
	if err != nil {
		return nil, status.InvalidArgumentf("The debug_options of the run cannot be read: %v", err)
	}
	return b, nil
}

// watch adds the debugger's nodes to the graphs of the devices and returns the debug URLs that the graphs are written to.
func (s *Session) watch(parts *partition.Parts, watches []byte) ([]string, error) {
	if watches == nil {
		return nil, nil
	}
	var o corepb.DebugOptions
	if err := proto.Unmarshal(watches, &o); err != nil {
		return nil, status.Internalf("The watches of a plan cannot be read: %v", err)
	}
	for _, d := range parts.Devices {
		device, err := place.Parse(d)
		if err != nil {
			return nil, status.Internalf("A part's device has no name: %v", err)
		}
		parts.ByDevice[d], err = watch.Insert(parts.ByDevice[d], d, watch.Options{
			Watches:  o.DebugTensorWatchOpts,
			Supports: func(n *graph.Node) bool { return kernels.Supports(n, device.Type) },
		})
		if err != nil {
			return nil, err
		}
	}
	return watch.URLs(o.DebugTensorWatchOpts), nil
}

// dump writes the graphs of devices to debug URLs.
func (s *workerSession) dump(parts map[string]*graph.Graph, urls []string) error {
	for _, url := range urls {
		root, err := debug.Root(url)
		if err != nil {
			return err
		}
		for device, g := range parts {
			def, err := proto.Marshal(g.Def())
			if err != nil {
				return status.Internalf("The graph of %s cannot be written: %v", device, err)
			}
			if err := debug.WriteGraph(s.files.For(debug.IdentityOp), root, device, def); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeRun writes the description of a watched run to its debug URLs.
func (s *Session) writeRun(req *StepRequest, p *plan) error {
	o := req.Options.GetDebugOptions()
	run := debug.Run{
		GlobalStep: o.GetGlobalStep(), SessionRunIndex: s.watched.Add(1) - 1, ExecutorStepIndex: p.watched.Add(1) - 1,
		InputNames: []string{}, OutputNames: req.Fetches, TargetNodes: req.Targets,
	}
	for _, f := range req.Feeds {
		run.InputNames = append(run.InputNames, f.Name)
	}
	for _, url := range watch.URLs(o.GetDebugTensorWatchOpts()) {
		root, err := debug.Root(url)
		if err != nil {
			return err
		}
		if err := debug.WriteRun(s.worker.files.For(debug.IdentityOp), root, run); err != nil {
			return err
		}
	}
	return nil
}
