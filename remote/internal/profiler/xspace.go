package profiler

import (
	"slices"
	"strconv"

	"github.com/troupe-run/troupe/internal/view"
	pb "github.com/troupe-run/troupe/remote/internal/profiler/profilerpb"
)

// hostPlane is the plane in which TensorFlow's tools look for the host's events.
const hostPlane = "/host:CPU"

// picoseconds is the number of picoseconds in a nanosecond.
const picoseconds = 1000

// space converts what a task has recorded to a profile: a plane with a line for each lane.
func space(t *view.TaskTrace) *pb.XSpace {
	p := &plane{out: &pb.XPlane{Name: hostPlane, EventMetadata: map[int64]*pb.XEventMetadata{}, StatMetadata: map[int64]*pb.XStatMetadata{}},
		events: map[[2]string]int64{}, stats: map[string]int64{}}
	for i, l := range view.Lanes(t.GetEvents()) {
		name := l.Name
		if l.Number > 0 {
			name += " (" + strconv.Itoa(l.Number+1) + ")"
		}
		line := &pb.XLine{Id: int64(i + 1), DisplayId: int64(i + 1), Name: name, DisplayName: name, TimestampNs: l.Events[0].Begin}
		end := line.TimestampNs
		for _, e := range l.Events {
			line.Events = append(line.Events, p.event(e, line.TimestampNs))
			end = max(end, e.Begin+e.Duration)
		}
		line.DurationPs = (end - line.TimestampNs) * picoseconds
		p.out.Lines = append(p.out.Lines, line)
	}
	p.out.Stats = []*pb.XStat{p.text("task", t.GetTask()), p.number("clock_offset_ns", t.GetOffset()), p.number("clock_error_ns", t.GetOffsetError())}
	s := &pb.XSpace{Planes: []*pb.XPlane{p.out}, Hostnames: []string{t.GetTask()}}
	if t.GetReason() != "" {
		s.Warnings = append(s.Warnings, t.GetTask()+": "+t.GetReason())
	}
	if n := t.GetDropped(); n > 0 {
		s.Warnings = append(s.Warnings, t.GetTask()+": "+strconv.FormatInt(n, 10)+" events were dropped, which were beyond the limits")
	}
	return s
}

// plane is a plane under construction.
type plane struct {
	out    *pb.XPlane
	events map[[2]string]int64 // metadata IDs, by name and display name
	stats  map[string]int64
}

func (p *plane) event(e *view.TraceEvent, began int64) *pb.XEvent {
	name, display := e.Name, ""
	if e.Op != "" { // as TensorFlow's executor names them
		name, display = e.Name+":"+e.Op, e.Op
	} else if e.Edge != "" {
		name = e.Kind + " " + e.Edge
	}
	key := [2]string{name, display}
	id := p.events[key]
	if id == 0 {
		id = int64(len(p.events) + 1)
		p.events[key] = id
		p.out.EventMetadata[id] = &pb.XEventMetadata{Id: id, Name: name, DisplayName: display}
	}
	x := &pb.XEvent{MetadataId: id, Data: &pb.XEvent_OffsetPs{OffsetPs: (e.Begin - began) * picoseconds}, DurationPs: e.Duration * picoseconds}
	if e.Step != 0 {
		x.Stats = append(x.Stats, p.number("id", int64(e.Step))) // TensorFlow's name of a step's number
	}
	if e.Op != "" {
		x.Stats = append(x.Stats, p.text("tf_op", name))
	}
	if e.Device != "" {
		x.Stats = append(x.Stats, p.text("device", e.Device))
	}
	if e.Edge != "" {
		x.Stats = append(x.Stats, p.text("edge", e.Edge))
	}
	if e.Peer != "" {
		x.Stats = append(x.Stats, p.text("peer", e.Peer))
	}
	if e.Session != "" {
		x.Stats = append(x.Stats, p.text("session", e.Session))
	}
	if e.Bytes > 0 {
		x.Stats = append(x.Stats, p.number("bytes", e.Bytes))
	}
	if e.Unfinished {
		x.Stats = append(x.Stats, p.number("unfinished", 1))
	}
	return x
}

func (p *plane) stat(name string) int64 {
	id := p.stats[name]
	if id == 0 {
		id = int64(len(p.stats) + 1)
		p.stats[name] = id
		p.out.StatMetadata[id] = &pb.XStatMetadata{Id: id, Name: name}
	}
	return id
}

func (p *plane) text(name, value string) *pb.XStat {
	return &pb.XStat{MetadataId: p.stat(name), Value: &pb.XStat_StrValue{StrValue: value}}
}

func (p *plane) number(name string, value int64) *pb.XStat {
	return &pb.XStat{MetadataId: p.stat(name), Value: &pb.XStat_Int64Value{Int64Value: value}}
}

// usage summarizes a task's work in a trace.
type usage struct {
	steps, running     int64 // ended steps, and unfinished ones
	least, most, total int64 // of the durations of ended steps, in nanoseconds
	busy, window       int64 // nanoseconds in which a kernel ran, and the total
}

// usageOf summarizes a task's trace. Waiting receives do not count as work.
func usageOf(t *view.TaskTrace, began, ended int64) usage {
	u := usage{window: max(1, ended-began)}
	var spans [][2]int64
	for _, e := range t.GetEvents() {
		switch e.Kind {
		case view.StepEvent:
			if e.Unfinished {
				u.running++
				continue
			}
			if u.steps++; u.steps == 1 || e.Duration < u.least {
				u.least = e.Duration
			}
			u.most = max(u.most, e.Duration)
			u.total += e.Duration
		case view.KernelEvent, view.SendEvent:
			if from, to := max(e.Begin, began), min(e.Begin+e.Duration, ended); from < to {
				spans = append(spans, [2]int64{from, to})
			}
		}
	}
	slices.SortFunc(spans, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	until := began
	for _, s := range spans {
		if from := max(s[0], until); s[1] > from {
			u.busy += s[1] - from
			until = s[1]
		}
	}
	return u
}
