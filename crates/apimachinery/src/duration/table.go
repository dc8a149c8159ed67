// Prints each text, quoted, and the nanoseconds that Go's time.ParseDuration returns, or `refused`.
//
//	go run crates/apimachinery/src/duration/table.go > crates/apimachinery/src/duration/table.tsv
package main

import (
	"fmt"
	"time"
)

func main() {
	for _, text := range []string{
		"0", "+0", "00", "0s", "0h0m0s", "5s", "30s", "1478s", "+5s", "5.0s", "5.6s", "5.s", ".5s", "0.5s", "1.0s", "1.00s", "1.004s", "1.0040s",
		"100.00100s", "10ns", "11us", "12µs", "12μs", "13ms", "14s", "15m", "16h", "1.5h", "1h2m3.5s", "3h30m", "10.5s4m", "1h1m1s",
		"1m1h", "1m1m", "1s1m", "10m0s", "43800h0m0s", "1h15m30.918273645s", "1h2m3s4ms5us6ns", "39h9m14.425s",
		"52763797000ns", "0.3333333333333333333h", "0.33333333333333333333h", "1.3333333333333333333333m", "0.100000000000000000000h", "0.830103483285477580700h",
		"0.9223372036854775807h", "9007199254740993ns", "9223372036854775807ns", "9223372036854775.807us", "9223372036s854ms775us807ns", "2562047h47m16.854775807s",
		"0.1ns", "0.9ns", "1.9ns", ".9ms", "0.000000000000000001h", "0.7m", "1.1h", "2.3s", "0.29s", "4.35m",
		"-5s", "-0s", "-1.5h",
		"", "-", "+", "s", ".", "-.", ".s", "+.s", "3", "60", "1.5", "1 hour", "1h 30m", " 1h", "1h ", "1hour", "1min", "1sec", "1.2.3s", "1..5s", "1h-5m", "--5s", "+-5s",
		"1e3s", "1_000s", "1,5h", "1H", "1S", "1M", "h1", "1h2", "1é", "٣s",
		"9223372036854775808ns", "9223372036854775.808us", "9223372036854ms775us808ns", "2562047h47m16.854775808s", "9223372036855ms", "3000000h", "99999999999999999999h", "99999999999999999999ns",
		"1d", "1w", "1y", "1d12h", "1.5d",
	} {
		if length, err := time.ParseDuration(text); err != nil {
			fmt.Printf("%q\trefused\n", text)
		} else {
			fmt.Printf("%q\t%d\n", text, length.Nanoseconds())
		}
	}
}
