"""Every flight out of New York with the weather of its hour, its aircraft and airline; and delays by airline and day.

    departures --by origin--> weather as of time_hour --> plane by tailnum --> airline name --> flights
                                                                                  └-- by carrier, day --> delays

The weather is a *versioned* table: a flight meets the row that was valid at its own hour, whatever has been read of
either file by then. The planes are a table of another key, asked by tail number. The airlines are few, so each
partition has a copy of them all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

import raystreams as rs

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Departure:
    """A row of the flights file, as far as it is used. No `dep_delay`: it never left."""

    carrier: str
    flight: int
    origin: str
    dest: str
    tailnum: str | None
    time_hour: datetime
    dep_delay: int | None


@dataclass(frozen=True)
class Weather:
    """The weather at an airport in the hour that starts at `time_hour`."""

    time_hour: datetime
    temp: float | None
    wind_speed: float | None
    precip: float | None
    visib: float | None


@dataclass(frozen=True)
class Plane:
    manufacturer: str | None
    model: str | None


@dataclass(frozen=True)
class Airline:
    name: str


@dataclass(frozen=True)
class Flight:
    """A departure and all that is known of it; None where nothing is."""

    carrier: str
    flight: int
    origin: str
    dest: str
    tailnum: str | None
    time_hour: datetime
    dep_delay: int | None
    airline: str | None = None
    manufacturer: str | None = None
    model: str | None = None
    temp: float | None = None
    wind_speed: float | None = None
    precip: float | None = None
    visib: float | None = None
    weather_time: datetime | None = None


@dataclass
class Tally:
    """The flights of an airline in a day, while the day is open."""

    flights: int = 0
    cancelled: int = 0
    delay: int = 0
    worst: int | None = None
    in_rain: int = 0


@dataclass(frozen=True)
class Delays:
    """The day of an airline. The delays are of flights that left, early ones counted as negative."""

    carrier: str
    day: date
    flights: int
    cancelled: int
    mean_dep_delay: float | None
    worst_dep_delay: int | None
    in_rain: int


DEPARTURES = rs.Topic("departures", value=Departure)
WEATHER = rs.Topic("weather", key=str, value=Weather)
PLANES = rs.Topic("planes", key=str, value=Plane)
AIRLINES = rs.Topic("airlines", key=str, value=Airline)
FLIGHTS = rs.Topic("flights", key=str, value=Flight)
DELAYS = rs.Topic("delays", key=str, value=Delays)


def with_weather(left: Departure, weather: Weather | None) -> Flight:
    flight = Flight(left.carrier, left.flight, left.origin, left.dest, left.tailnum, left.time_hour, left.dep_delay)
    if weather is None:
        return flight
    return replace(
        flight,
        temp=weather.temp,
        wind_speed=weather.wind_speed,
        precip=weather.precip,
        visib=weather.visib,
        weather_time=weather.time_hour,
    )


def with_plane(flight: Flight, plane: Plane | None) -> Flight:
    return replace(flight, manufacturer=plane.manufacturer, model=plane.model) if plane else flight


def with_airline(flight: Flight, airline: Airline | None) -> Flight:
    return replace(flight, airline=airline.name) if airline else flight


def count(carrier: str, flight: Flight, day: Tally) -> Tally:
    day.flights += 1
    day.in_rain += flight.precip is not None and flight.precip > 0
    if flight.dep_delay is None:
        day.cancelled += 1
    else:
        day.delay += flight.dep_delay
        day.worst = flight.dep_delay if day.worst is None else max(day.worst, flight.dep_delay)
    return day


def closed(window: rs.Windowed[str], day: Tally) -> tuple[str, Delays]:
    left = day.flights - day.cancelled
    mean = day.delay / left if left else None
    row = Delays(window.key, window.start_time.date(), day.flights, day.cancelled, mean, day.worst, day.in_rain)
    return window.key, row


def build(weather_history: timedelta = 366 * DAY) -> rs.Topology:
    """Describe the job. `weather_history` is how far a flight may lag behind the newest weather of its partition."""
    builder = rs.StreamsBuilder()
    history = rs.Materialized.versioned("weather-history", history_retention=weather_history)
    weather = builder.table(WEATHER, materialized=history)
    planes = builder.table(PLANES, materialized=rs.Materialized.key_value("planes"))
    airlines = builder.global_table(AIRLINES, materialized=rs.Materialized.key_value("airlines"))

    flights = (
        builder.stream(DEPARTURES)
        .select_key(lambda _, departure: departure.origin, key=str, name="by-origin")
        .left_join(weather, with_weather, name="with-weather")
        .left_join(planes, with_plane, stream_foreign_key=lambda flight: flight.tailnum, name="with-plane")
        .left_join(airlines, with_airline, key_selector=lambda _, flight: flight.carrier, name="with-airline")
    )
    flights.to(FLIGHTS)
    (
        flights.group_by(lambda _, flight: flight.carrier, key=str, name="by-carrier")
        .windowed_by(rs.TimeWindows(DAY, grace=DAY))
        .emit_strategy(rs.EmitStrategy.on_window_close())
        .aggregate(Tally, count, name="delays-by-day")
        .to_stream()
        .map(closed, name="closed-day")
        .to(DELAYS)
    )
    return builder.build()
