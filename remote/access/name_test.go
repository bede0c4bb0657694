package access

import (
	"crypto/x509"
	"net/url"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for text, want := range map[string]Name{
		"troupe://task/worker/1":          TaskName("worker", 1),
		"troupe://task/worker":            JobName("worker"),
		"troupe://client/alice":           ClientName("alice"),
		"troupe://client/a.b_c-d@e":       ClientName("a.b_c-d@e"),
		"troupe://task/worker/01":         {},
		"troupe://task/worker/-1":         {},
		"troupe://task/worker/":           {},
		"troupe://task/worker/1/2":        {},
		"troupe://task/":                  {},
		"troupe://task//1":                {},
		"troupe://task/9worker/1":         {},
		"troupe://task/worker/9999999999": {},
		"troupe://client/":                {},
		"troupe://client/a/b":             {},
		"troupe://client/*":               {},
		"troupe://client/a%20b":           {},
		"troupe://client/a\nb":            {},
		"troupe://clients/alice":          {},
		"http://client/alice":             {},
		"troupe://client/" + strings.Repeat("a", maxClientName+1): {},
	} {
		got, err := ParseName(text)
		if got != want || (err == nil) != (want != Name{}) {
			t.Errorf("ParseName(%q) = %v, %v", text, got, err)
		}
		if err == nil && got.String() != text {
			t.Errorf("%q is printed as %q", text, got)
		}
	}
}

func TestWhoIsATask(t *testing.T) {
	for _, c := range []struct {
		name  Name
		job   string
		index int
		want  bool
	}{
		{TaskName("worker", 1), "worker", 1, true},
		{TaskName("worker", 1), "worker", 0, false},
		{TaskName("worker", 1), "ps", 1, false},
		{JobName("worker"), "worker", 7, true},
		{JobName("worker"), "ps", 0, false},
		{ClientName("worker"), "worker", 0, false},
		{Name{}, "", 0, false},
		{ClientName("x"), "", 0, false},
	} {
		if got := c.name.IsTask(c.job, c.index); got != c.want {
			t.Errorf("%s is task %d of %q: %v", c.name, c.index, c.job, got)
		}
	}
}

func TestNamesInCertificates(t *testing.T) {
	uris := func(texts ...string) *x509.Certificate {
		c := &x509.Certificate{}
		for _, s := range texts {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = append(c.URIs, u)
		}
		c.Subject.CommonName = "alice"
		return c
	}
	for want, cert := range map[string]*x509.Certificate{
		"":                       uris("spiffe://x/y", "troupe://client/alice"),
		"must carry a URI":       uris(),
		"carries two names":      uris("troupe://client/alice", "troupe://task/ps/0"),
		"is not a name":          uris("troupe://client/alice?x=1"),
		`"troupe://user@client/`: uris("troupe://user@client/alice"),
	} {
		if _, err := NameOf(cert); !contains(err, want) {
			t.Errorf("NameOf: %v, want %q", err, want)
		}
	}
}

func FuzzCertificateName(f *testing.F) {
	for _, s := range []string{"troupe://task/worker/1", "troupe://task/worker", "troupe://client/alice", "troupe://task/a/00", "troupe://client/%61"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := ParseName(text)
		if err == nil && name.String() != text {
			t.Errorf("%q is read as %q: two texts are one name", text, name)
		}
		if (name == Name{}) != (err != nil) || err == nil && (name.Client() == "") == (name.Job() == "") {
			t.Errorf("ParseName(%q) = %v, %v", text, name, err)
		}
		if u, bad := url.Parse(text); bad == nil {
			in, bad := NameOf(&x509.Certificate{URIs: []*url.URL{u}})
			if bad == nil && in.String() != u.String() {
				t.Errorf("a certificate for %q has the name %q", u, in)
			}
		}
	})
}
