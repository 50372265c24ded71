"""What people say and the time they mean by it, at several moments and places: ends of years, leap days, clock changes.

A line is a phrase, its first and its last day; or, with hours, its beginning and its end. Two dots stand for an open
beginning. Lines under `2026-02-18T15:30 Europe/Berlin` are said then and there.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mcp_memory.domain.toc import start_of_day_ms
from mcp_memory.times.resolve import resolve

TABLE = """
2026-02-18T15:30 Europe/Berlin
  between January 5 and January 9        | 2026-01-05 | 2026-01-09
  between the 5th and the 9th of January | 2026-01-05 | 2026-01-09
  between Monday and Wednesday           | 2026-02-16 | 2026-02-18
  between Monday and Wednesday last week | 2026-02-09 | 2026-02-11
  Monday to Wednesday of last week       | 2026-02-09 | 2026-02-11
  from Thursday until Saturday last week | 2026-02-12 | 2026-02-14
  from 3 to 7 March                      | 2025-03-03 | 2025-03-07
  from 3 to 7 February                   | 2026-02-03 | 2026-02-07
  from last Monday until yesterday       | 2026-02-16 | 2026-02-17
  from the 5th of January to the 9th     | 2026-01-05 | 2026-01-09
  from the 28th of January to the 3rd    | 2026-01-28 | 2026-02-03
  from Jan 28 to 3 Feb                   | 2026-01-28 | 2026-02-03
  January 5 thru 9                       | 2026-01-05 | 2026-01-09
  Jan 5 → Jan 9                          | 2026-01-05 | 2026-01-09
  the 3rd to the 5th                     | 2026-02-03 | 2026-02-05
  from Monday till now                   | 2026-02-16 | 2026-02-18
  from last week until now               | 2026-02-09 | 2026-02-18
  today and yesterday                    | 2026-02-17 | 2026-02-18
  this week and last week                | 2026-02-09 | 2026-02-22
  yesterday or the day before            | 2026-02-16 | 2026-02-17
  Monday, Tuesday and Wednesday          | 2026-02-16 | 2026-02-18
  on January 5th, 6th and 7th            | 2026-01-05 | 2026-01-07
  October, November and December         | 2025-10-01 | 2025-12-31
  2026-02-03..                           | 2026-02-03 | 2026-02-18
  ..2026-02-03                           | ..         | 2026-02-03
  from January on                        | 2026-01-01 | 2026-02-18
  from Monday onwards                    | 2026-02-16 | 2026-02-18
  starting on Monday                     | 2026-02-16 | 2026-02-18
  beginning January 5                    | 2026-01-05 | 2026-02-18
  on or after January 5                  | 2026-01-05 | 2026-02-18
  no earlier than January 5              | 2026-01-05 | 2026-02-18
  later than last week                   | 2026-02-16 | 2026-02-18
  since the 3rd                          | 2026-02-03 | 2026-02-18
  since two weeks ago                    | 2026-02-02 | 2026-02-18
  since the start of the month           | 2026-02-01 | 2026-02-18
  until 5 March                          | ..         | 2025-03-05
  by the end of last week                | ..         | 2026-02-15
  on or before January 5                 | ..         | 2026-01-05
  no later than January 5                | ..         | 2026-01-05
  up to and including Friday             | ..         | 2026-02-13
  up until last week                     | ..         | 2026-02-08
  earlier than last week                 | ..         | 2026-02-08
  a week ago Friday                      | 2026-02-06 | 2026-02-06
  a week ago last Friday                 | 2026-02-06 | 2026-02-06
  two weeks ago on Monday                | 2026-02-02 | 2026-02-02
  Friday two weeks ago                   | 2026-02-06 | 2026-02-06
  Tuesday in week 6                      | 2026-02-03 | 2026-02-03
  Monday of the week of Jan 7            | 2026-01-05 | 2026-01-05
  Friday before last                     | 2026-02-06 | 2026-02-06
  this past Monday                       | 2026-02-16 | 2026-02-16
  the last two Mondays                   | 2026-02-09 | 2026-02-16
  two Fridays ago                        | 2026-02-06 | 2026-02-06
  the last working day                   | 2026-02-17 | 2026-02-17
  the Monday after Easter                | 2025-04-21 | 2025-04-21
  the Monday after Christmas             | 2025-12-29 | 2025-12-29
  the Friday before Christmas            | 2025-12-19 | 2025-12-19
  the first Thursday after New Year      | 2026-01-08 | 2026-01-08
  the Tuesday before January 6           | 2025-12-30 | 2025-12-30
  two days after Christmas               | 2025-12-27 | 2025-12-27
  three days before Christmas            | 2025-12-22 | 2025-12-22
  the week of Thanksgiving               | 2025-11-24 | 2025-11-30
  on the eve of Christmas                | 2025-12-24 | 2025-12-24
  on MLK Day                             | 2026-01-19 | 2026-01-19
  on Presidents' Day                     | 2026-02-16 | 2026-02-16
  on Memorial Day                        | 2025-05-26 | 2025-05-26
  on Mother's Day                        | 2025-05-11 | 2025-05-11
  on Veterans Day                        | 2025-11-11 | 2025-11-11
  on May Day                             | 2025-05-01 | 2025-05-01
  on Ash Wednesday                       | 2026-02-18 | 2026-02-18
  on Whit Monday                         | 2025-06-09 | 2025-06-09
  on Ascension Day                       | 2025-05-29 | 2025-05-29
  the first week of March                | 2025-03-03 | 2025-03-09
  the first week of the year             | 2025-12-29 | 2026-01-04
  the first week of 2026                 | 2025-12-29 | 2026-01-04
  the first Monday of the month          | 2026-02-02 | 2026-02-02
  the first of the month                 | 2026-02-01 | 2026-02-01
  the 5th of last month                  | 2026-01-05 | 2026-01-05
  last month on the 5th                  | 2026-01-05 | 2026-01-05
  the 31st of last month                 | 2026-01-31 | 2026-01-31
  end of January                         | 2026-01-21 | 2026-01-31
  towards the end of January             | 2026-01-21 | 2026-01-31
  mid-February                           | 2026-02-10 | 2026-02-19
  early last month                       | 2026-01-01 | 2026-01-11
  early in the week                      | 2026-02-16 | 2026-02-18
  mid last week                          | 2026-02-11 | 2026-02-13
  the first half of 2025                 | 2025-01-01 | 2025-06-30
  the second half of last year           | 2025-07-01 | 2025-12-31
  H2 2026                                | 2026-07-01 | 2026-12-31
  in Q1                                  | 2026-01-01 | 2026-03-31
  two quarters ago                       | 2025-07-01 | 2025-09-30
  in spring                              | 2025-03-01 | 2025-05-31
  in the fall                            | 2025-09-01 | 2025-11-30
  spring 2024                            | 2024-03-01 | 2024-05-31
  March two years ago                    | 2024-03-01 | 2024-03-31
  two years ago in March                 | 2024-03-01 | 2024-03-31
  back in January                        | 2026-01-01 | 2026-01-31
  the whole of January                   | 2026-01-01 | 2026-01-31
  all of last week                       | 2026-02-09 | 2026-02-15
  so far this week                       | 2026-02-16 | 2026-02-22
  this month so far                      | 2026-02-01 | 2026-02-28
  year to date                           | 2026-01-01 | 2026-12-31
  sometime last week                     | 2026-02-09 | 2026-02-15
  at some point in January               | 2026-01-01 | 2026-01-31
  over the course of January             | 2026-01-01 | 2026-01-31
  the week just gone                     | 2026-02-09 | 2026-02-15
  the past 10 days                       | 2026-02-08 | 2026-02-18
  these last few days                    | 2026-02-13 | 2026-02-18
  last 7d                                | 2026-02-11 | 2026-02-18
  3d ago                                 | 2026-02-15 | 2026-02-15
  2 wks ago                              | 2026-02-02 | 2026-02-08
  recently                               | 2026-02-04 | 2026-02-18
  over the weekend                       | 2026-02-14 | 2026-02-15
  this past weekend                      | 2026-02-14 | 2026-02-15
  weekend before last                    | 2026-02-07 | 2026-02-08
  the day before yesterday               | 2026-02-16 | 2026-02-16
  a fortnight ago                        | 2026-02-02 | 2026-02-08
  two or three days ago                  | 2026-02-15 | 2026-02-16
  2-3 weeks ago                          | 2026-01-26 | 2026-02-08
  twenty-one days ago                    | 2026-01-28 | 2026-01-28
  eighteen months ago                    | 2024-08-01 | 2024-08-31
  the last full week                     | 2026-02-09 | 2026-02-15
  last week's Friday                     | 2026-02-13 | 2026-02-13
  last year's Q4                         | 2025-10-01 | 2025-12-31
  2026-01-12/2026-02-03                  | 2026-01-12 | 2026-02-03
  vom 3. bis 5. Februar                  | 2026-02-03 | 2026-02-05
  am Wochenende                          | 2026-02-14 | 2026-02-15
  Ende Januar                            | 2026-01-21 | 2026-01-31
  seit Montag                            | 2026-02-16 | 2026-02-18
  gestern Abend                          | 2026-02-17T17:00 | 2026-02-18T00:00
  heute Morgen                           | 2026-02-18T04:00 | 2026-02-18T12:00
  vor einer Stunde                       | 2026-02-18T13:30 | 2026-02-18T15:30
  since Wednesday                        | 2026-02-11 | 2026-02-18
  between two and three weeks ago        | 2026-01-26 | 2026-02-08
  a week or two ago                      | 2026-02-02 | 2026-02-15
  a month or so ago                      | 2025-12-01 | 2026-01-31
  the last day or two                    | 2026-02-16 | 2026-02-18
  the week commencing 2 February         | 2026-02-02 | 2026-02-08
  w/c 2 Feb                              | 2026-02-02 | 2026-02-08
  during the week of 4 Feb               | 2026-02-02 | 2026-02-08
  in CW7                                 | 2026-02-09 | 2026-02-15
  2026W07                                | 2026-02-09 | 2026-02-15
  2024-W03-2                             | 2024-01-16 | 2024-01-16
  2026/02/03                             | 2026-02-03 | 2026-02-03
  2026-2-3                               | 2026-02-03 | 2026-02-03
  2026.02.03                             | 2026-02-03 | 2026-02-03
  20260203                               | 2026-02-03 | 2026-02-03
  03.02.2026                             | 2026-02-03 | 2026-02-03
  3.2.26                                 | 2026-02-03 | 2026-02-03
  am 3.2.                                | 2026-02-03 | 2026-02-03
  on 3. Feb                              | 2026-02-03 | 2026-02-03
  on 3/2                                 | 2025-03-02 | 2025-03-02
  13/2                                   | 2026-02-13 | 2026-02-13
  1/2/26                                 | 2026-01-02 | 2026-01-02
  12/2/2026                              | 2026-02-12 | 2026-02-12
  12/2/2025                              | 2025-12-02 | 2025-12-02
  02-03-2026                             | 2026-02-03 | 2026-02-03
  02/2026                                | 2026-02-01 | 2026-02-28
  Feb-2026                               | 2026-02-01 | 2026-02-28
  Jan '26                                | 2026-01-01 | 2026-01-31
  around February 3                      | 2026-02-01 | 2026-02-05
  around the middle of last week         | 2026-02-11 | 2026-02-13
  around noon on the 5th                 | 2026-02-05T11:00 | 2026-02-05T14:00
  at 3pm yesterday                       | 2026-02-17T14:00 | 2026-02-17T17:00
  at 3 p.m. yesterday                    | 2026-02-17T14:00 | 2026-02-17T17:00
  yesterday at 3                         | 2026-02-17T14:00 | 2026-02-17T17:00
  yesterday at 9                         | 2026-02-17T08:00 | 2026-02-17T11:00
  yesterday at 9 in the evening          | 2026-02-17T20:00 | 2026-02-17T23:00
  around 15:30 on Monday                 | 2026-02-16T14:00 | 2026-02-16T17:00
  Feb 3, 10am                            | 2026-02-03T09:00 | 2026-02-03T12:00
  3 Feb 2026 14:05                       | 2026-02-03T13:00 | 2026-02-03T16:00
  at 2pm                                 | 2026-02-18T13:00 | 2026-02-18T16:00
  at 16:00                               | 2026-02-17T15:00 | 2026-02-17T18:00
  this morning at 9                      | 2026-02-18T08:00 | 2026-02-18T11:00
  at 9 yesterday morning                 | 2026-02-17T08:00 | 2026-02-17T11:00
  last night at 11                       | 2026-02-17T22:00 | 2026-02-18T01:00
  yesterday between 3pm and 5pm          | 2026-02-17T15:00 | 2026-02-17T17:00
  yesterday from 3 to 5pm                | 2026-02-17T15:00 | 2026-02-17T17:00
  yesterday 11 to 2pm                    | 2026-02-17T11:00 | 2026-02-17T14:00
  Monday 10:00-12:15                     | 2026-02-16T10:00 | 2026-02-16T12:15
  from 10:00 to 12:00 on Monday          | 2026-02-16T10:00 | 2026-02-16T12:00
  from yesterday 3pm to today 10am       | 2026-02-17T15:00 | 2026-02-18T10:00
  yesterday before noon                  | 2026-02-17T00:00 | 2026-02-17T12:00
  after 3pm yesterday                    | 2026-02-17T15:00 | 2026-02-18T00:00
  before 10am on Monday                  | 2026-02-16T00:00 | 2026-02-16T10:00
  until midnight yesterday               | 2026-02-17T00:00 | 2026-02-18T00:00
  yesterday after lunch                  | 2026-02-17T13:00 | 2026-02-18T00:00
  before noon                            | 2026-02-18T00:00 | 2026-02-18T12:00
  since noon                             | 2026-02-18T12:00 | 2026-02-19T00:00
  since 9am yesterday                    | 2026-02-17T09:00 | 2026-02-19T00:00
  since yesterday noon                   | 2026-02-17T12:00 | 2026-02-19T00:00
  late yesterday                         | 2026-02-17T17:00 | 2026-02-18T00:00
  early on Monday                        | 2026-02-16T04:00 | 2026-02-16T11:00
  late last night                        | 2026-02-18T00:00 | 2026-02-18T06:00
  early Monday morning                   | 2026-02-16T04:00 | 2026-02-16T08:00
  first thing this morning               | 2026-02-18T04:00 | 2026-02-18T08:00
  the night before last                  | 2026-02-16T18:00 | 2026-02-17T06:00
  in the last hour                       | 2026-02-18T14:30 | 2026-02-18T15:30
  in the last half hour                  | 2026-02-18T15:00 | 2026-02-18T15:30
  last 24h                               | 2026-02-17T15:30 | 2026-02-18T15:30
  10 mins ago                            | 2026-02-18T15:10 | 2026-02-18T15:30
  2026-02-03T10:00:00Z                   | 2026-02-03T11:00 | 2026-02-03T11:01
  around 2026-02-03T10:00:00Z            | 2026-02-03T10:00 | 2026-02-03T12:00
  since 2026-02-03T10:00:00.5+01:00      | 2026-02-03T10:00:00.500 | 2026-02-19T00:00
  Black Friday                           | 2025-11-28 | 2025-11-28
  around Easter                          | 2025-04-18 | 2025-04-21
  over New Year                          | 2025-12-31 | 2026-01-01
  over the holidays                      | 2025-12-22 | 2026-01-02
  Christmas last year                    | 2025-12-25 | 2025-12-25
  in October last year                   | 2025-10-01 | 2025-10-31
  January this year                      | 2026-01-01 | 2026-01-31
  October and November                   | 2025-10-01 | 2025-11-30
  Monday or Tuesday                      | 2026-02-16 | 2026-02-17
  January 1st and 2nd                    | 2026-01-01 | 2026-01-02
  on the 3rd and 4th of January          | 2026-01-03 | 2026-01-04
  the twentieth of January               | 2026-01-20 | 2026-01-20
  January twenty-first                   | 2026-01-21 | 2026-01-21
  the first two weeks of January         | 2026-01-01 | 2026-01-14
  the last three days of January         | 2026-01-29 | 2026-01-31
  this time last year                    | 2025-02-16 | 2025-02-20
  the past fortnight                     | 2026-02-04 | 2026-02-18
  two weekends ago                       | 2026-02-07 | 2026-02-08
  the last two weekends                  | 2026-02-07 | 2026-02-15
  the weekend of January 10              | 2026-01-10 | 2026-01-11
  the weekend of January 12              | 2026-01-10 | 2026-01-11
  the weekend after January 10           | 2026-01-17 | 2026-01-18
  the weekend before January 10          | 2026-01-03 | 2026-01-04
  the Friday before last                 | 2026-02-06 | 2026-02-06
  the third quarter of 2025              | 2025-07-01 | 2025-09-30
  first quarter of last year             | 2025-01-01 | 2025-03-31
  Q4/2025                                | 2025-10-01 | 2025-12-31
  2025 Q4                                | 2025-10-01 | 2025-12-31
  Q4 last year                           | 2025-10-01 | 2025-12-31
  the first half of the month            | 2026-02-01 | 2026-02-14
  yesterday at 3pm                       | 2026-02-17T14:00 | 2026-02-17T17:00
  around noon yesterday                  | 2026-02-17T11:00 | 2026-02-17T14:00
  15:30 on February 3                    | 2026-02-03T14:00 | 2026-02-03T17:00
  between 2pm and 4pm yesterday          | 2026-02-17T14:00 | 2026-02-17T16:00
  February 3rd in the evening            | 2026-02-03T17:00 | 2026-02-04T00:00
  12am on February 3                     | 2026-02-03T00:00 | 2026-02-03T02:00
  Monday afternoon last week             | 2026-02-09T12:00 | 2026-02-09T18:00
  half an hour ago                       | 2026-02-18T14:50 | 2026-02-18T15:10

2025-01-01T00:30 Europe/Berlin
  this morning                           | 2025-01-01T04:00 | 2025-01-01T12:00
  last night                             | 2024-12-31T18:00 | 2025-01-01T06:00
  an hour ago                            | 2024-12-31T22:30 | 2025-01-01T00:30
  since 11pm                             | 2024-12-31T23:00 | 2025-01-02T00:00
  at 11pm                                | 2024-12-31T22:00 | 2025-01-01T01:00
  last Monday                            | 2024-12-30 | 2024-12-30
  this week                              | 2024-12-30 | 2025-01-05
  a week ago today                       | 2024-12-25 | 2024-12-25
  a week ago Friday                      | 2024-12-20 | 2024-12-20
  over Christmas                         | 2024-12-24 | 2024-12-26
  between Christmas and New Year         | 2024-12-25 | 2025-01-01
  from Dec 28 to Jan 3                   | 2024-12-28 | 2025-01-03
  the last week of last year             | 2024-12-23 | 2024-12-29
  the last week of December              | 2024-12-23 | 2024-12-29
  the first week of the year             | 2024-12-30 | 2025-01-05
  in Q4                                  | 2024-10-01 | 2024-12-31
  last quarter                           | 2024-10-01 | 2024-12-31
  two quarters ago                       | 2024-07-01 | 2024-09-30
  the end of last year                   | 2024-09-01 | 2024-12-31
  late last month                        | 2024-12-21 | 2024-12-31
  the 31st                               | 2024-12-31 | 2024-12-31
  the 2nd                                | 2024-12-02 | 2024-12-02
  the 5th of last month                  | 2024-12-05 | 2024-12-05
  week 1                                 | 2024-12-30 | 2025-01-05
  the past 10 days                       | 2024-12-22 | 2025-01-01
  since Monday                           | 2024-12-30 | 2025-01-01
  12/31                                  | 2024-12-31 | 2024-12-31
  last winter                            | 2023-12-01 | 2024-02-29

2021-01-02T10:00 America/New_York
  week 53                                | 2020-12-28 | 2021-01-03
  in week 53 of 2020                     | 2020-12-28 | 2021-01-03
  this week                              | 2020-12-28 | 2021-01-03
  last week                              | 2020-12-21 | 2020-12-27
  two weeks ago                          | 2020-12-14 | 2020-12-20
  2020-W53-5                             | 2021-01-01 | 2021-01-01
  2020-W53..2021-W01                     | 2020-12-28 | 2021-01-10
  Friday of week 53                      | 2021-01-01 | 2021-01-01
  this weekend                           | 2021-01-02 | 2021-01-03
  last weekend                           | 2020-12-26 | 2020-12-27
  the last working day                   | 2021-01-01 | 2021-01-01
  the first week of January              | 2021-01-04 | 2021-01-10
  the last week of December              | 2020-12-28 | 2021-01-03
  Thanksgiving                           | 2020-11-26 | 2020-11-26
  over Thanksgiving                      | 2020-11-26 | 2020-11-29
  the day after Thanksgiving             | 2020-11-27 | 2020-11-27
  Labor Day                              | 2020-09-07 | 2020-09-07
  Memorial Day                           | 2020-05-25 | 2020-05-25

2024-02-29T12:00 UTC
  a year ago today                       | 2023-02-28 | 2023-02-28
  this day last month                    | 2024-01-29 | 2024-01-29
  last month                             | 2024-01-01 | 2024-01-31
  Feb 29                                 | 2024-02-29 | 2024-02-29
  the last day of the month              | 2024-02-29 | 2024-02-29
  the past year                          | 2023-02-28 | 2024-02-29
  the second half of the month           | 2024-02-15 | 2024-02-29
  the 30th                               | 2024-01-30 | 2024-01-30
  the 31st                               | 2024-01-31 | 2024-01-31
  end of February                        | 2024-02-20 | 2024-02-29
  in February last year                  | 2023-02-01 | 2023-02-28
  from Feb 27 to Mar 2                   | 2024-02-27 | 2024-03-02
  two days before March 2024             | 2024-02-28 | 2024-02-28
  the day before March 1 2024            | 2024-02-29 | 2024-02-29
  at 2pm                                 | 2024-02-28T13:00 | 2024-02-28T16:00

2024-03-31T14:00 Europe/Berlin
  today                                  | 2024-03-31 | 2024-03-31
  today at 2:30                          | 2024-03-31T01:00 | 2024-03-31T05:00
  since 3am                              | 2024-03-31T03:00 | 2024-04-01T00:00
  the last 24 hours                      | 2024-03-30T13:00 | 2024-03-31T14:00
  12 hours ago                           | 2024-03-31T00:00 | 2024-03-31T03:00
  Easter                                 | 2024-03-31 | 2024-03-31
  last Easter                            | 2023-04-09 | 2023-04-09
  over Easter                            | 2024-03-29 | 2024-04-01
  yesterday evening                      | 2024-03-30T17:00 | 2024-03-31T00:00
  last night                             | 2024-03-30T18:00 | 2024-03-31T06:00

2024-11-03T20:00 America/New_York
  today                                  | 2024-11-03 | 2024-11-03
  yesterday                              | 2024-11-02 | 2024-11-02
  this weekend                           | 2024-11-02 | 2024-11-03
  over the weekend                       | 2024-11-02 | 2024-11-03
  this afternoon                         | 2024-11-03T12:00 | 2024-11-03T18:00
  since noon                             | 2024-11-03T12:00 | 2024-11-04T00:00
  between 9am and 5pm today              | 2024-11-03T09:00 | 2024-11-03T17:00
  Halloween                              | 2024-10-31 | 2024-10-31
  the last 3 days                        | 2024-10-31 | 2024-11-03
  the last hour                          | 2024-11-03T19:00 | 2024-11-03T20:00

2026-07-05T23:30 Pacific/Auckland
  today                                  | 2026-07-05 | 2026-07-05
  tonight                                | 2026-07-05T18:00 | 2026-07-06T06:00
  this week                              | 2026-06-29 | 2026-07-05
  last Sunday                            | 2026-06-28 | 2026-06-28
  on Sunday                              | 2026-07-05 | 2026-07-05
  Independence Day                       | 2026-07-04 | 2026-07-04
  in Q2                                  | 2026-04-01 | 2026-06-30
  on 7/4                                 | 2026-07-04 | 2026-07-04
  at 22:00                               | 2026-07-05T21:00 | 2026-07-06T00:00

2026-05-04T08:00 Asia/Kolkata
  yesterday at noon                      | 2026-05-03T11:00 | 2026-05-03T14:00
  the last working day                   | 2026-05-01 | 2026-05-01
  on Friday                              | 2026-05-01 | 2026-05-01
  last Monday                            | 2026-04-27 | 2026-04-27
  on Monday                              | 2026-05-04 | 2026-05-04
  over the weekend                       | 2026-05-02 | 2026-05-03
  may 1                                  | 2026-05-01 | 2026-05-01
  in may                                 | 2026-05-01 | 2026-05-31
  at 7:15                                | 2026-05-04T06:00 | 2026-05-04T09:00
  around 18:30 yesterday                 | 2026-05-03T17:00 | 2026-05-03T20:00
"""


def entries() -> Iterator[tuple[datetime, str, str, str]]:
    now = datetime.min
    for line in filter(None, TABLE.splitlines()):
        if not line.startswith(" "):
            time, zone = line.split()
            now = datetime.fromisoformat(time).replace(tzinfo=ZoneInfo(zone))
            continue
        phrase, first, last = (part.strip() for part in line.split("|"))
        yield now, phrase, first, last


def begin(text: str, zone: ZoneInfo) -> int:
    if text == "..":
        return 0
    return moment(text, zone) if "T" in text else start_of_day_ms(date.fromisoformat(text), zone)


def end(text: str, zone: ZoneInfo) -> int:
    """Days are meant whole."""
    return moment(text, zone) if "T" in text else start_of_day_ms(date.fromisoformat(text) + timedelta(days=1), zone)


def moment(text: str, zone: ZoneInfo) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize(
    ("now", "phrase", "first", "last"),
    [pytest.param(*entry, id=f"{entry[1]}-{entry[0]:%Y-%m-%d}") for entry in entries()],
)
def test_a_phrase_means_what_people_mean_by_it(now: datetime, phrase: str, first: str, last: str) -> None:
    zone = now.tzinfo
    assert isinstance(zone, ZoneInfo)
    found = resolve(phrase, now, zone)
    told = [datetime.fromtimestamp(each / 1000, zone).isoformat() for each in (found.start_ms, found.end_ms)]
    wanted = [datetime.fromtimestamp(each / 1000, zone).isoformat() for each in (begin(first, zone), end(last, zone))]
    assert told == wanted


def test_the_table_holds_what_it_claims() -> None:
    """Several zones, both changes of the clock, a leap day and a week 53 are no use if nothing is said there."""
    said = list(entries())
    assert len(said) >= 250
    assert len({str(now.tzinfo) for now, *_ in said}) >= 5
