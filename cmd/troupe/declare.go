package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/remote/spec"
)

// tfConfig is the environment variable in which TensorFlow's launchers declare the cluster.
const tfConfig = "TF_CONFIG"

// slurmCluster is the value of --cluster for the cluster that is a step of Slurm.
const slurmCluster = "slurm"

// declaration is a cluster and a task in it in the forms that serve takes.
type declaration struct {
	cluster   string   // --cluster
	slurmJobs string   // --slurm-jobs
	slurmPort int      // --slurm-port
	jobs      []string // --ps=…, --worker=…
	serverDef string   // --server-def
	join      []string // --join
	job       string
	task      int
	hasTask   bool
	protocol  string
	config    string      // --config
	compress  compression // --rpc-compression
}

// check refuses a command line that declares no cluster or several ones.
func (d *declaration) check() error {
	var given []string
	for _, form := range []struct {
		name string
		set  bool
	}{{"--cluster", d.cluster != ""}, {"a flag for each job", len(d.jobs) > 0}, {"--server-def", d.serverDef != ""},
		{"--join", len(d.join) > 0}} {
		if form.set {
			given = append(given, form.name)
		}
	}
	if len(given) > 1 {
		return usage(fmt.Errorf("the cluster is declared more than once, by %s", strings.Join(given, " and ")))
	}
	if len(given) == 0 && os.Getenv(tfConfig) == "" {
		return usage(fmt.Errorf("no cluster is declared: give --cluster, a flag for each job such as --worker=host:port, --server-def, %s in the environment, or --join to learn it from a running one", tfConfig))
	}
	if d.cluster != slurmCluster && (d.slurmJobs != "" || d.slurmPort != spec.SlurmPort) {
		return usage(fmt.Errorf("--slurm-jobs and --slurm-port are for --cluster %s", slurmCluster))
	}
	if d.slurmJobs != "" {
		if _, err := parseTasks(d.slurmJobs); err != nil {
			return usage(fmt.Errorf("--slurm-jobs: %w", err))
		}
	}
	return nil
}

// server makes the declared server, started. ctx bounds how long a cluster to join is looked for.
func (d *declaration) server(ctx context.Context, log *slog.Logger, opts ...troupe.Option) (*troupe.Server, error) {
	config := &corepb.ConfigProto{}
	if d.config != "" {
		if err := readProto(d.config, config); err != nil {
			return nil, err
		}
	}
	if d.compress.algorithm != "" {
		d.compress.into(config)
	}
	opts = append(opts, troupe.WithConfig(config))
	var own []troupe.Option // what the flags say comes last
	if d.job != "" {
		own = append(own, troupe.WithJob(d.job))
	}
	if d.hasTask {
		own = append(own, troupe.WithTask(d.task))
	}
	if d.protocol != "" {
		own = append(own, troupe.WithProtocol(d.protocol))
	}
	if len(d.join) > 0 {
		return troupe.JoinCluster(ctx, d.join, append(opts, own...)...)
	}
	if d.serverDef != "" {
		def := &corepb.ServerDef{}
		if err := readProto(d.serverDef, def); err != nil {
			return nil, err
		}
		return troupe.NewServer(ctx, def, append(opts, own...)...)
	}
	var cluster *spec.Spec
	var err error
	switch {
	case d.cluster == slurmCluster:
		var self spec.Task
		cluster, self, err = d.slurm()
		opts = append(opts, troupe.WithJob(self.Job), troupe.WithTask(self.Index))
	case d.cluster != "":
		cluster, err = spec.Parse(d.cluster)
	case len(d.jobs) > 0:
		cluster, err = spec.Parse(strings.Join(d.jobs, ";"))
	default:
		var self spec.Task
		cluster, self, err = spec.FromTFConfig([]byte(os.Getenv(tfConfig)))
		opts = append(opts, troupe.WithJob(self.Job), troupe.WithTask(self.Index))
	}
	if err != nil {
		return nil, err
	}
	if os.Getenv(tfConfig) != "" && (d.cluster != "" || len(d.jobs) > 0) {
		log.Debug("TF_CONFIG is ignored: the command line declares the cluster")
	}
	return troupe.NewServer(ctx, cluster.Proto(), append(opts, own...)...)
}

// slurm is the cluster that is the process's step of Slurm, and which of its tasks the process is.
func (d *declaration) slurm() (*spec.Spec, spec.Task, error) {
	var jobs map[string]int
	if d.slurmJobs != "" {
		var err error
		if jobs, err = parseTasks(d.slurmJobs); err != nil {
			return nil, spec.Task{}, err
		}
	}
	return spec.FromSlurm(os.LookupEnv, jobs, d.slurmPort)
}
