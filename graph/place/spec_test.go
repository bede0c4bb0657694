package place

import (
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name string
		want Spec
	}{
		{"", Open()},
		{"/", Open()},
		{"/job:ps/replica:0/task:1/device:CPU:0", Spec{"ps", 0, 1, "CPU", 0}},
		{"/job:ps/task:1", Spec{"ps", -1, 1, "", -1}},
		{"/task:1/job:ps", Spec{"ps", -1, 1, "", -1}},
		{"/job:a/job:b", Spec{"b", -1, -1, "", -1}},
		{"/job:*/replica:*/task:*/device:*:*", Open()},
		{"/job:a_1/job:*", Open()},
		{"/device:CPU:*", Spec{"", -1, -1, "CPU", -1}},
		{"/device:CPU", Spec{"", -1, -1, "CPU", -1}},
		{"/device:*:3", Spec{"", -1, -1, "", 3}},
		{"/cpu:0", Spec{"", -1, -1, "CPU", 0}},
		{"/GPU:*", Spec{"", -1, -1, "GPU", -1}},
		{"/device:gpu:2", Spec{"", -1, -1, "GPU", 2}},
		{"/job:w/gpu:1", Spec{"w", -1, -1, "GPU", 1}},
	} {
		got, err := Parse(c.name)
		if err != nil || got != c.want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	for _, name := range []string{"*", "cpu:0", "/cpu", "/job:", "/job:1", "/job:a-b", "/task:", "/task:x", "/task:-1",
		"/task:99999999999", "/task:2147483648", "/device:", "/device::0", "/device:CPU:", "/device:CPU:0:0", "//", "/job:a/",
		"/tpu:0", "/device:ı:0", "job:a", "/job:ps,"} {
		if got, err := Parse(name); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", name, got)
		} else {
			check(t, err, "Malformed device specification '"+name+"'")
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"CPU:1", "/job:w/replica:0/task:2/device:CPU:1"},
		{"gpu:0", "/job:w/replica:0/task:2/device:GPU:0"},
		{"/cpu:0", "/job:w/replica:0/task:2/device:CPU:0"},
		{"/task:5", "/job:w/replica:0/task:5/device:GPU:7"},
		{"", "/job:w/replica:0/task:2/device:GPU:7"},
	} {
		got, err := Canonical(c.name, "/job:w/replica:0/task:2/device:GPU:7")
		if err != nil || got != c.want {
			t.Errorf("Canonical(%q) = %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	_, err := Canonical("CPU:x", w0)
	check(t, err, "Could not parse CPU:x into a device specification.")
	_, err = Canonical("CPU:*", w0)
	check(t, err, "Could not parse CPU:* into a device specification.")
	_, err = Canonical("/nope", w0)
	check(t, err, "Could not parse /nope into a device specification.")
	_, err = Canonical("/cpu:0", "/job:w")
	check(t, err, "Basename: /job:w should be fully specified.")
	_, err = Canonical("/cpu:0", "w")
	check(t, err, "Could not parse basename: w into a device specification.")
}

func TestMerge(t *testing.T) {
	for _, c := range []struct{ a, b, hard, soft string }{
		{"/job:ps", "/task:1", "/job:ps/task:1", "/job:ps/task:1"},
		{"", "/cpu:0", "/device:CPU:0", "/device:CPU:0"},
		{"/job:a", "/job:b", "!jobs", "!jobs"},
		{"/replica:0", "/replica:1", "!replicas", "!replicas"},
		{"/job:a/task:0", "/job:a/task:1", "!tasks", "!tasks"},
		{"/job:a/cpu:0", "/gpu:1", "!types", "/job:a"},
		{"/job:a/gpu:0", "/gpu:1", "!ids", "/job:a/device:GPU:*"},
		{"/job:a/task:3/gpu:0", "/task:3/device:*:1", "!ids", "/job:a/task:3/device:GPU:*"},
	} {
		a, _ := Parse(c.a)
		b, _ := Parse(c.b)
		for soft, want := range map[bool]string{false: c.hard, true: c.soft} {
			got, err := a.Merge(b, soft)
			if want[0] == '!' {
				check(t, err, "Cannot merge devices with incompatible "+want[1:]+": '"+a.String()+"' and '"+b.String()+"'")
			} else if err != nil || got.String() != want {
				t.Errorf("%q with %q (soft %v) = %q, %v; want %q", c.a, c.b, soft, got, err, want)
			}
		}
	}
}

// TestMatches checks which devices a spec allows, part by part.
func TestMatches(t *testing.T) {
	const dev = "/job:ps/replica:1/task:2/device:GPU:3"
	d, _ := Parse(dev)
	for spec, want := range map[string]bool{
		"": true, dev: true, "/device:*:3": true, "/job:ps/task:2": true,
		"/job:worker": false, "/replica:0": false, "/task:0": false, "/device:CPU:*": false, "/device:GPU:0": false,
	} {
		s, err := Parse(spec)
		if err != nil || s.Matches(d) != want {
			t.Errorf("%q matches %s: %v, %v", spec, dev, !want, err)
		}
	}
}

// FuzzParse checks that a valid name has a canonical form with the same meaning, and that relations between specs are consistent.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"/job:ps/replica:0/task:1/device:CPU:0", "/cpu:*", "/device:*:3", "/gpu:0/job:*", "/", "*", w1} {
		f.Add(s, "/job:ps/cpu:1")
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		s, err := Parse(x)
		if err != nil {
			return
		}
		if again, err := Parse(s.String()); err != nil || again != s {
			t.Fatalf("%q is %+v, written %q, read %+v, %v", x, s, s, again, err)
		}
		if s.IsFull() && !s.Matches(s) || !s.Compatible(s) || !s.Override(Open()).Compatible(s) {
			t.Fatalf("%+v does not fit itself", s)
		}
		o, err := Parse(y)
		if err != nil {
			return
		}
		m, err := s.Merge(o, false)
		if (err == nil) != s.Compatible(o) || s.Compatible(o) != o.Compatible(s) {
			t.Fatalf("%q with %q: merge %v, compatible %v", s, o, err, s.Compatible(o))
		}
		if err == nil && (m.IsFull() && (!s.Matches(m) || !o.Matches(m)) || m != s.Override(o)) {
			t.Fatalf("%q with %q is %q", s, o, m)
		}
	})
}
