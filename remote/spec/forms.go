package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	clusterpb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"

	"github.com/troupe-run/troupe/graph/status"
)

// Parse parses the form that flags use: jobs separated by semicolons, each a name, an equals sign and its tasks' addresses separated by
// commas, as in ps=h:1;worker=h:2,h:3. The tasks count from 0; one that is written as 7@h:2 has index 7, and counting continues from there.
func Parse(text string) (*Spec, error) {
	if strings.TrimSpace(text) == "" {
		return New(nil)
	}
	jobs := map[string]map[int]string{}
	for part := range strings.SplitSeq(text, ";") {
		name, list, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		switch {
		case strings.TrimSpace(part) == "":
			return nil, status.InvalidArgumentf("Could not interpret %q as a cluster spec: no job stands before or after one of its semicolons.", text)
		case !ok:
			return nil, status.InvalidArgumentf("Could not interpret %q as a job of a cluster spec: it must read name=host:port,host:port.", part)
		case strings.Contains(list, "="):
			return nil, status.InvalidArgumentf("Could not interpret %q as the tasks of job %q: jobs are separated by semicolons, as in ps=host:port;worker=host:port,host:port.", list, name)
		}
		if _, ok := jobs[name]; ok {
			return nil, status.InvalidArgumentf("Duplicate job ID in cluster specification: %s", name)
		}
		tasks, err := parseTasks(name, list)
		if err != nil {
			return nil, err
		}
		jobs[name] = tasks
	}
	return New(jobs)
}

func parseTasks(job, list string) (map[int]string, error) {
	tasks := map[int]string{}
	if strings.TrimSpace(list) == "" {
		return tasks, nil
	}
	next := 0
	for address := range strings.SplitSeq(list, ",") {
		address = strings.TrimSpace(address)
		if digits, rest, ok := strings.Cut(address, "@"); ok {
			index, ok := parseIndex(digits)
			if !ok {
				return nil, status.InvalidArgumentf("Could not interpret %q in %q as the index of a task in job %q.", digits, address, job)
			}
			next, address = index, rest
		}
		if _, ok := tasks[next]; ok {
			return nil, status.InvalidArgumentf("Duplicate task %d in job %q of the cluster spec.", next, job)
		}
		tasks[next] = address
		next++
	}
	return tasks, nil
}

// String returns the spec in the form that Parse reads.
func (s *Spec) String() string {
	var b strings.Builder
	next := 0
	for i, t := range s.tasks {
		switch {
		case i == 0 || s.tasks[i-1].Job != t.Job:
			if i > 0 {
				b.WriteByte(';')
			}
			b.WriteString(t.Job + "=")
			next = 0
		default:
			b.WriteByte(',')
		}
		if t.Index != next {
			b.WriteString(strconv.Itoa(t.Index) + "@")
		}
		b.WriteString(t.Address)
		next = t.Index + 1
	}
	return b.String()
}

// FromProto converts TensorFlow's ClusterDef.
func FromProto(def *clusterpb.ClusterDef) (*Spec, error) {
	jobs := map[string]map[int]string{}
	for _, job := range def.GetJob() {
		if _, ok := jobs[job.GetName()]; ok {
			return nil, status.InvalidArgumentf("Duplicate job ID in cluster specification: %s", job.GetName())
		}
		tasks := map[int]string{}
		for index, address := range job.GetTasks() {
			tasks[int(index)] = address
		}
		jobs[job.GetName()] = tasks
	}
	return New(jobs)
}

// Proto returns the spec as TensorFlow's ClusterDef, with its jobs sorted by name.
func (s *Spec) Proto() *clusterpb.ClusterDef {
	def := &clusterpb.ClusterDef{}
	for _, t := range s.tasks {
		last := len(def.Job) - 1
		if last < 0 || def.Job[last].Name != t.Job {
			def.Job = append(def.Job, &clusterpb.JobDef{Name: t.Job, Tasks: map[int32]string{}})
			last++
		}
		def.Job[last].Tasks[int32(t.Index)] = t.Address
	}
	return def
}

// FromTFConfig parses the JSON text that TensorFlow's launchers store in the environment variable TF_CONFIG: the cluster (each job a list
// of addresses, or an object from index to address) and which of its tasks this process is. The task may be omitted if there is only one,
// and its index if the job has only one. Kubeflow tells a worker only about itself and the parameter servers, as "sparseCluster". Other
// keys are ignored.
func FromTFConfig(text []byte) (*Spec, Task, error) {
	var self struct{ job, index json.RawMessage }
	var cluster, sparse json.RawMessage
	err := eachField("TF_CONFIG", text, func(key string, value json.RawMessage) error {
		switch key {
		case "cluster":
			cluster = value
		case "sparseCluster":
			sparse = value
		case "task":
			if string(value) == "null" {
				return nil
			}
			return eachField(`"task" of TF_CONFIG`, value, func(key string, value json.RawMessage) error {
				switch key {
				case "type":
					self.job = value
				case "index":
					self.index = value
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, Task{}, err
	}
	if cluster == nil {
		cluster = sparse
	}
	if cluster == nil {
		return nil, Task{}, status.InvalidArgumentf(`TF_CONFIG has no "cluster".`)
	}
	s, err := fromJSON(cluster)
	if err != nil {
		return nil, Task{}, err
	}
	t, err := selfTask(s, self.job, self.index)
	return s, t, err
}

func selfTask(s *Spec, jobText, indexText json.RawMessage) (Task, error) {
	if jobText == nil && indexText == nil && s.Len() == 1 {
		return s.tasks[0], nil
	}
	var job string
	if jobText == nil || json.Unmarshal(jobText, &job) != nil {
		return Task{}, status.InvalidArgumentf(`TF_CONFIG must name this process's job: "task" needs a "type" that is a string.`)
	}
	if indexText == nil {
		if of := slices.DeleteFunc(s.Tasks(), func(t Task) bool { return t.Job != job }); len(of) == 1 {
			return of[0], nil
		}
	}
	// TensorFlow converts the index with int(), so text is as good as a number.
	digits := strings.Trim(string(bytes.TrimSpace(indexText)), `"`)
	index, ok := parseIndex(digits)
	if !ok {
		return Task{}, status.InvalidArgumentf(`TF_CONFIG must give this process's task: "task" needs an "index" that is a number, not %q.`, digits)
	}
	return s.Task(job, index)
}

func fromJSON(text json.RawMessage) (*Spec, error) {
	jobs := map[string]map[int]string{}
	err := eachField(`"cluster" of TF_CONFIG`, text, func(job string, value json.RawMessage) error {
		var list []string
		if json.Unmarshal(value, &list) == nil {
			jobs[job] = map[int]string{}
			for i, address := range list {
				jobs[job][i] = address
			}
			return nil
		}
		if value[0] != '{' {
			return status.InvalidArgumentf("Job %q of TF_CONFIG must be a list of addresses or an object from index to address, not %s.", job, value)
		}
		tasks := map[int]string{}
		jobs[job] = tasks
		where := "job " + strconv.Quote(job) + " of TF_CONFIG"
		return eachField(where, value, func(key string, value json.RawMessage) error {
			index, ok := parseIndex(key)
			if !ok {
				return status.InvalidArgumentf("%q in %s is not the index of a task.", key, where)
			}
			var address string
			if err := json.Unmarshal(value, &address); err != nil {
				return status.InvalidArgumentf("Task %d in %s needs an address that is a string, not %s.", index, where, value)
			}
			tasks[index] = address
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return New(jobs)
}

// eachField calls f for the fields of a JSON object in order. A duplicate key is an error: decoding into a map would silently drop the
// first, and with it a job.
func eachField(what string, text []byte, f func(key string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	bad := func(err error) error {
		switch {
		case len(bytes.TrimSpace(text)) == 0:
			err = errors.New("it is empty")
		case err == nil:
			err = errors.New("it is not an object")
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = errors.New("it ends before its last closing bracket")
		}
		return status.InvalidArgumentf("Could not parse %s: %v.", what, err)
	}
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return bad(err)
	}
	var seen []string
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return bad(err)
		}
		if slices.Contains(seen, key) {
			return bad(errors.New("it has " + strconv.Quote(key) + " twice"))
		}
		seen = append(seen, key)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return bad(err)
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return bad(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad(errors.New("something follows its end"))
	}
	return nil
}
